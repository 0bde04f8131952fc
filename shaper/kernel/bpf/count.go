// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Count brings the counters of the fabric's hops up to date.
func (p *Programs) Count() error {
	now, err := p.hops()
	if err != nil {
		return fmt.Errorf("read the counters of the BPF programs: %w", err)
	}
	for i := range p.seen {
		was, now := &p.seen[i], &now[i]
		if *now == *was {
			continue
		}
		p.File.Count(i, link.Counters{
			Bytes: now.Bytes - was.Bytes, Wire: now.Wire - was.Wire, Segments: now.Packets - was.Packets,
			Drops: now.Drops - was.Drops, BusyNs: int64(now.BusyNs - was.BusyNs),
		})
		entry := p.File.Entry(i)
		for c := range now.Classes {
			atomic.AddUint64(&entry.Classes[c], now.Classes[c]-was.Classes[c])
		}
		*was = *now
	}
	return nil
}

// hops reads all counters in one call: a fabric of many nodes has thousands.
func (p *Programs) hops() ([]shapeHop, error) {
	var cursor ebpf.MapBatchCursor
	keys, values := make([]uint32, len(p.seen)), make([]shapeHop, len(p.seen))
	n, err := p.o.Hops.BatchLookup(&cursor, keys, values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, err
	}
	if n != len(values) {
		return nil, fmt.Errorf("%d of %d were there", n, len(values))
	}
	return values, nil
}

// Judge writes how late packets were on each link into the cells of a job, by hop.
// Nobody else may write to them.
func (p *Programs) Judge(cells []state.Cell) error {
	for i := range cells {
		if p.Fabric.Hops[i].Kind != fabric.Link || p.seen[i].Packets == 0 {
			continue
		}
		var l shapeLateness
		if err := p.o.Late.Lookup(uint32(i), &l); err != nil {
			return fmt.Errorf("read the lateness on %s: %w", p.Fabric.HopName(i), err)
		}
		judge(&cells[i], &l)
	}
	return nil
}

func judge(c *state.Cell, l *shapeLateness) {
	for i := range l.Size {
		from, to := &l.Size[i], &c.Size[i]
		for _, v := range []struct {
			to   *uint64
			from uint64
		}{{&to.Messages, from.Messages}, {&to.Bytes, from.Bytes}, {&to.OverP50, from.OverP50}, {&to.OverP99, from.OverP99}} {
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
		{&c.ModelBusy, l.ModelBusy}, {&c.WallBusy, l.WallBusy}, {&c.ModelUntil, l.ModelUntil}, {&c.WallUntil, l.WallUntil},
		{&c.FirstPosted, l.FirstPosted}, {&c.LastVisible, l.LastVisible},
	} {
		atomic.StoreInt64(v.to, int64(v.from))
	}
}
