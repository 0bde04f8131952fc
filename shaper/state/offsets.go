// SPDX-License-Identifier: Apache-2.0

package state

import "unsafe"

// Offsets lists the format's version, the verdict's limits, and the sizes and the fields of the structs
// that C reads too, by their names in layout.h, for the test that holds the two layouts together.
func Offsets() map[string]uintptr {
	var p Block
	var h Hop
	var k Class
	var c Cell
	var d header
	var t transportBlock
	return map[string]uintptr{
		"version of the format": Version, "p50 floor": P50FloorNs, "p50 part": P50Part, "p99 floor": P99FloorNs, "p99 part": P99Part,
		"params": unsafe.Sizeof(p), "params.jitter_kind": unsafe.Offsetof(p.JitterKind), "params.jitter": unsafe.Offsetof(p.Jitter),
		"params.loss_p": unsafe.Offsetof(p.LossP), "params.queue_ns": unsafe.Offsetof(p.QueueNs), "params.payload": unsafe.Offsetof(p.Payload),
		"params.down": unsafe.Offsetof(p.Down), "params.stated_bandwidth": unsafe.Offsetof(p.StatedBandwidth),
		"params.stated_loss_p": unsafe.Offsetof(p.StatedLossP), "params.stated_mtu": unsafe.Offsetof(p.StatedMTU), "params.retired": unsafe.Offsetof(p.Retired),
		"hop": unsafe.Sizeof(h), "hop.params": unsafe.Offsetof(h.Params), "hop.changes": unsafe.Offsetof(h.Changes), "hop.next_free": unsafe.Offsetof(h.NextFree), "hop.host_free": unsafe.Offsetof(h.HostFree), "hop.buffer": unsafe.Offsetof(h.Buffer),
		"hop.bytes": unsafe.Offsetof(h.Bytes), "hop.drops": unsafe.Offsetof(h.Drops), "hop.busy_ns": unsafe.Offsetof(h.BusyNs), "hop.classes": unsafe.Offsetof(h.Classes),
		"hop.marks": unsafe.Offsetof(h.Marks), "hop.paused_ns": unsafe.Offsetof(h.PausedNs), "params.ecn_ns": unsafe.Offsetof(p.ECNNs), "params.stated_ecn": unsafe.Offsetof(p.StatedECN),
		"class": unsafe.Sizeof(k), "class.over_p99": unsafe.Offsetof(k.OverP99), "class.max_late": unsafe.Offsetof(k.MaxLate), "class.late": unsafe.Offsetof(k.Late),
		"cell": unsafe.Sizeof(c), "cell.model_busy": unsafe.Offsetof(c.ModelBusy), "cell.first_posted": unsafe.Offsetof(c.FirstPosted),
		"cell.stalls": unsafe.Offsetof(c.Stalls), "cell.held_sends": unsafe.Offsetof(c.HeldSends),
		"transport": unsafe.Sizeof(t), "transport.send_buffer": unsafe.Offsetof(t.SendBuffer), "transport.congestion": unsafe.Offsetof(t.Congestion), "transport.second": unsafe.Offsetof(t.Second), "transport.gap": unsafe.Offsetof(t.Gap),
		"transport.host_per_message": unsafe.Offsetof(t.HostPerMessage), "transport.host_ns_den": unsafe.Offsetof(t.HostNsDen),
		"header": unsafe.Sizeof(d), "header.boot_id": unsafe.Offsetof(d.BootID), "header.closed": unsafe.Offsetof(d.Closed),
		"header.fabric_id": unsafe.Offsetof(d.FabricID), "header.seed": unsafe.Offsetof(d.Seed), "header.time_scale": unsafe.Offsetof(d.TimeScale),
		"header.nics_per_node": unsafe.Offsetof(d.NICsPerNode), "header.config_len": unsafe.Offsetof(d.ConfigLen),
		"header.hops_off": unsafe.Offsetof(d.HopsOff), "header.cells_off": unsafe.Offsetof(d.CellsOff), "header.config_off": unsafe.Offsetof(d.ConfigOff),
		"header.transport": unsafe.Offsetof(d.Transport), "header.next_event": unsafe.Offsetof(d.NextEvent), "header.name": unsafe.Offsetof(d.Name),
		"header.followed": unsafe.Offsetof(d.Followed), "header.marks_off": unsafe.Offsetof(d.MarksOff), "header.marks": unsafe.Offsetof(d.Marks),
	}
}
