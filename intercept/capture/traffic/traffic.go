// SPDX-License-Identifier: Apache-2.0

// Package traffic writes the packets on the links of a fabric of the kernel datapath, which its daemon taps (package
// tap), to a capture file.
package traffic

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

// Options describe a capture.
type Options struct {
	Fabric *fabric.Fabric
	Links  []int // hops of the links to look at
	Kind   tap.Kind
	Shaper string // name
	Snap   int    // most bytes of each packet
	Names  map[netip.Addr]string
}

// Summary counts what was written. A record is a packet, or what segmentation offload has not yet divided.
type Summary struct {
	Records int
	Packets uint64 // that the records are on the links, as the fabric counts them; 0 if they are not known
	Lost    uint64 // of these, dropped by the loss of a link
	Down    uint64 // dropped on a link that is down
	Full    uint64 // dropped by a queue
	Marked  uint64 // with an ECN mark
	Missed  uint64 // records that are not in the file, because they came faster than they were read
}

// Writer writes records. Times are of the emulated network: the first one is the date at which the writer was
// made, and the time scale divides what has passed since.
type Writer struct {
	w       *pcapng.Writer
	scale   int64
	ifaces  map[uint32]int // by hop
	counts  []struct{ came, missed uint64 }
	date    int64 // ns since 1970 at monotonic time begun
	begun   int64
	sum     Summary
	comment []byte // used again for each packet
}

// NewWriter writes the interfaces, one for each link, to w.
func NewWriter(w *pcapng.Writer, o Options) *Writer {
	t := &Writer{
		w: w, scale: int64(o.Fabric.TimeScale()), ifaces: map[uint32]int{},
		counts: make([]struct{ came, missed uint64 }, len(o.Links)),
		date:   time.Now().UnixNano(), begun: state.Now(), // the clock of the records
	}
	for i, hop := range o.Links {
		t.ifaces[uint32(hop)] = i
		w.Interface(o.Fabric.HopName(hop), Describe(o.Kind, o.Shaper), o.Fabric.Hops[hop].Spec.Bandwidth, o.Snap)
	}
	w.Names(o.Names)
	return t
}

// Describe says where the packets of a link are read, and which packets are not seen there.
func Describe(k tap.Kind, shaper string) string {
	if k == tap.Programs {
		return "an emulated link, in the eBPF programs of the shaper " + shaper
	}
	return fmt.Sprintf(
		"an emulated link, by a packet socket at the switch before the shaper %s: drops and departures are not seen",
		shaper)
}

// at is the time in the file of a monotonic time.
func (t *Writer) at(ns int64) int64 { return t.date + (ns-t.begun)/t.scale }

// Add writes a record, if its link is one of those to look at. It reports whether it has written a packet.
func (t *Writer) Add(r *tap.Record) bool {
	i, ok := t.ifaces[r.Hop]
	if !ok {
		if r.Hop == tap.NoHop {
			t.sum.Missed += r.Missed
		}
		return false
	}
	c := &t.counts[i]
	c.came += r.Missed
	c.missed += r.Missed
	t.sum.Missed += r.Missed
	if r.Fate == tap.Notice {
		return false
	}
	c.came++
	t.count(r)
	t.w.Packet(i, t.at(r.Enqueued), r.Data, int(r.Length), pcapng.PacketInfo{
		Direction: pcapng.Outbound, Comment: t.describe(r), Dropped: r.Fate.Dropped(), Missed: r.Missed,
	})
	return true
}

// count adds a record to the summary.
func (t *Writer) count(r *tap.Record) {
	n := uint64(r.Packets)
	t.sum.Records++
	t.sum.Packets += n
	switch r.Fate {
	case tap.Lost:
		t.sum.Lost += n
	case tap.Down:
		t.sum.Down += n
	case tap.LinkFull, tap.PortFull:
		t.sum.Full += n
	case tap.Marked:
		t.sum.Marked += n
	}
}

// fates are the words for what happened to a packet. Package capture's dissector makes a field of them.
var fates = map[tap.Fate]string{
	tap.Sent: "sent", tap.Marked: "marked", tap.Lost: "lost", tap.Down: "down", tap.LinkFull: "link-full",
	tap.PortFull: "port-full",
}

// describe makes the comment of a packet: what happened to it, how long it takes, and how many packets it is on the
// link. There is none if the tap does not know.
func (t *Writer) describe(r *tap.Record) []byte {
	if r.Fate == tap.Seen {
		return nil
	}
	b := append(t.comment[:0], "ddlemu fate="...)
	b = append(b, fates[r.Fate]...)
	if r.Departs != 0 {
		b = strconv.AppendInt(append(b, " delay="...), (r.Departs-r.Enqueued)/t.scale, 10)
	}
	t.comment = strconv.AppendUint(append(b, " packets="...), uint64(r.Packets), 10)
	return t.comment
}

// Close writes the statistics of the interfaces. It does not close the file.
func (t *Writer) Close() Summary {
	for i, c := range t.counts {
		t.w.Statistics(i, t.date, t.at(state.Now()), c.came, c.missed)
	}
	return t.sum
}
