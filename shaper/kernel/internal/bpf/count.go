// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Count updates the counters of the hops in the fabric's file.
func (p *Programs) Count() error {
	now, err := p.readHops()
	if err != nil {
		return fmt.Errorf("read the counters of the BPF programs: %w", err)
	}
	for i := range p.counted {
		before, now := &p.counted[i], &now[i]
		if *now == *before {
			continue
		}
		p.File.Count(i, link.Counters{
			Bytes: now.Bytes - before.Bytes, LineBytes: now.LineBytes - before.LineBytes,
			Segments: now.Packets - before.Packets,
			Drops:    now.Drops - before.Drops, BusyNs: int64(now.BusyNs - before.BusyNs),
		})
		entry := p.File.Entry(i)
		for c := range now.Classes {
			atomic.AddUint64(&entry.Classes[c], now.Classes[c]-before.Classes[c])
		}
		*before = *now
	}
	return nil
}

// readHops reads the counters of all hops, which may be thousands, with one system call.
func (p *Programs) readHops() ([]shapeHop, error) {
	var cursor ebpf.MapBatchCursor
	keys, values := make([]uint32, len(p.counted)), make([]shapeHop, len(p.counted))
	n, err := p.objects.Hops.BatchLookup(&cursor, keys, values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, err
	}
	if n != len(values) {
		return nil, fmt.Errorf("got %d of %d hops", n, len(values))
	}
	return values, nil
}

// RecordLateness copies the recorded lateness of each link to the link statistics of a job, by hop. Nothing else
// may write to them.
func (p *Programs) RecordLateness(stats []state.LinkStats) error {
	for i := range stats {
		if p.Fabric.Hops[i].Kind != link.Link || p.counted[i].Packets == 0 {
			continue
		}
		var l shapeLateness
		if err := p.objects.Late.Lookup(uint32(i), &l); err != nil {
			return fmt.Errorf("read the lateness on %s: %w", p.Fabric.HopName(i), err)
		}
		copyLateness(&stats[i], &l)
	}
	return nil
}

func copyLateness(c *state.LinkStats, l *shapeLateness) {
	for i := range l.Size {
		from, to := &l.Size[i], &c.Size[i]
		for _, v := range []struct {
			to   *uint64
			from uint64
		}{{&to.Messages, from.Messages}, {&to.Bytes, from.Bytes}, {&to.OverP50, from.OverP50},
			{&to.OverP99, from.OverP99}} {
			atomic.StoreUint64(v.to, v.from)
		}
		atomic.StoreInt64(&to.SumLate, int64(from.SumLate))
		atomic.StoreInt64(&to.SumTime, int64(from.SumTime))
		atomic.StoreInt64(&to.MaxLate, int64(from.MaxLate))
		for b := range from.Late {
			atomic.StoreUint32(&to.Late[b], from.Late[b])
		}
	}
	for _, v := range []struct {
		to   *int64
		from uint64
	}{
		{&c.ModelBusy, l.ModelBusy}, {&c.WallBusy, l.WallBusy}, {&c.ModelUntil, l.ModelUntil},
		{&c.WallUntil, l.WallUntil},
		{&c.FirstPosted, l.FirstPosted}, {&c.LastVisible, l.LastVisible},
	} {
		atomic.StoreInt64(v.to, int64(v.from))
	}
}
