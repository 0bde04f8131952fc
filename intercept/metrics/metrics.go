// SPDX-License-Identifier: Apache-2.0

// Package metrics writes the state of fabrics, and what jobs have recorded, in Prometheus' text format.
package metrics

import (
	"io"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// column is one metric of each hop.
type column struct {
	name, help string
	counter    bool
	linkOnly   bool
	value      func(h *status.HopReading) float64
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// columns are the metrics of links but the counters; metrics of ports have "port" in place of "link".
var columns = []column{
	{"messages_total", "Messages that have arrived over a link, of the jobs that are listed.", true, true,
		func(h *status.HopReading) float64 { return float64(h.Messages) }},
	{"bandwidth_bits_per_second", "Rate of the line, 0 if it is unlimited.", false, false,
		func(h *status.HopReading) float64 { return float64(h.Spec.Bandwidth) }},
	{"latency_seconds", "Propagation latency.", false, true,
		func(h *status.HopReading) float64 { return h.Spec.Latency.Seconds() }},
	{"up", "1 if it is up, 0 if it is down.", false, true,
		func(h *status.HopReading) float64 { return truth(!h.Spec.Down) }},
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Write writes the metrics of fabrics. Times are of the emulated network, except of ddlemu_fabric_up_seconds.
func Write(w io.Writer, fabrics []*status.Reading) error { return writeFamilies(w, families(fabrics)) }

// families are all metrics of fabrics.
func families(fabrics []*status.Reading) []family {
	return slices.Concat(fabricFamilies(fabrics), jobFamilies(fabrics), hopFamilies(fabrics))
}

func fabricFamilies(fabrics []*status.Reading) []family {
	info := newFamily("ddlemu_fabric_info", "A fabric that is up.", dto.MetricType_GAUGE)
	nodes := newFamily("ddlemu_fabric_nodes", "Emulated nodes.", dto.MetricType_GAUGE)
	up := newFamily("ddlemu_fabric_up_seconds", "Real time since the fabric was brought up.", dto.MetricType_GAUGE)
	clock := newFamily("ddlemu_fabric_clock_seconds_total", "Time of the emulated network, by the fabric's clock.",
		dto.MetricType_COUNTER)
	for i := range fabrics {
		f := fabrics[i]
		info.add(1, "fabric", f.Name, "profile", f.Profile, "transport", f.Transport, "datapath", f.Datapath, "clock",
			f.Clock, "time_scale", strconv.Itoa(f.TimeScale))
		nodes.add(float64(f.Nodes), "fabric", f.Name)
		up.add(f.Up.Seconds(), "fabric", f.Name)
		clock.add(f.Time.Seconds(), "fabric", f.Name)
	}
	return []family{info, nodes, up, clock}
}

// jobFamilies are the metrics of jobs. Their label is not "job": Prometheus gives each target a label of that name.
func jobFamilies(fabrics []*status.Reading) []family {
	ranks := newFamily("ddlemu_job_ranks", "Ranks of a job by state.", dto.MetricType_GAUGE)
	running := newFamily("ddlemu_job_running", "1 while a job runs.", dto.MetricType_GAUGE)
	messages := newFamily("ddlemu_job_messages_total", "Messages of a job that have arrived.", dto.MetricType_COUNTER)
	bytes := newFamily("ddlemu_job_bytes_total", "Bytes of a job's messages that have arrived.", dto.MetricType_COUNTER)
	late := newFamily("ddlemu_message_late_seconds", "How much later than in the model a job's messages were there.",
		dto.MetricType_HISTOGRAM)
	for i := range fabrics {
		f := fabrics[i]
		for k := range f.Jobs {
			j := &f.Jobs[k]
			labels := []string{"fabric", f.Name, "job_number", strconv.Itoa(j.Number)}
			running.add(truth(j.Running), labels...)
			messages.add(float64(j.Messages), labels...)
			bytes.add(float64(j.Bytes), labels...)
			if !f.OnKernel() { // there the plugin does not know when a message is due
				late.addHistogram(latenessOf(&j.Counted).histogram(f.TimeScale), labels...)
			}
			for _, s := range []struct {
				state string
				ranks int
			}{{"joined", j.Joined}, {"left", j.Left}, {"died", j.Died}, {"stopped", j.Stopped}} {
				ranks.add(float64(s.ranks), append(labels[:4:4], "state", s.state)...)
			}
		}
	}
	return []family{ranks, running, messages, bytes, late}
}

func hopFamilies(fabrics []*status.Reading) []family {
	var all []family
	counted := columns
	for _, c := range link.ShownCounters() {
		counted = append(counted,
			column{c.Metric, c.Help, true, false, func(h *status.HopReading) float64 { return c.Value(&h.Counters) }})
	}
	for _, c := range counted {
		kind := dto.MetricType_GAUGE
		if c.counter {
			kind = dto.MetricType_COUNTER
		}
		links, ports := newFamily("ddlemu_link_"+c.name, c.help, kind), newFamily("ddlemu_port_"+c.name, c.help, kind)
		for _, f := range fabrics {
			for k := range f.Hops {
				switch h := &f.Hops[k]; {
				case !h.IsPort():
					links.add(c.value(h), "fabric", f.Name, "link", h.Name)
				case !c.linkOnly:
					ports.add(c.value(h), "fabric", f.Name, "port", h.NIC, "direction", h.Direction)
				}
			}
		}
		all = append(all, links, ports)
	}
	return all
}
