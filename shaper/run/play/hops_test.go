// SPDX-License-Identifier: Apache-2.0

package play

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// However wide the windows become, they have all of the time for which a hop was occupied, each at most its own width,
// and the peak is that of a plain count.
func TestOccupation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOccupation(1)
		var busy []bool // by us
		at, sum := int64(0), int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "segments") {
			at += 1000 * rapid.Int64Range(0, 50).Draw(t, "pause")
			dur := 1000 * rapid.Int64Range(1, 200).Draw(t, "duration")
			o.add(3, &link.HopRecord{Start: at, Dur: dur, Bytes: 10})
			for len(busy) < int((at+dur)/1000) {
				busy = append(busy, int64(len(busy)) >= at/1000)
			}
			at += dur
			sum += dur
		}
		got := int64(0)
		for _, ns := range o.hops[3].windows {
			if got += ns; ns > o.width {
				t.Fatalf("a window of %d ns is busy for %d", o.width, ns)
			}
		}
		if got != sum || o.load(3).busy != time.Duration(sum) || len(o.hops[3].windows) > o.most {
			t.Fatalf("%d windows with %d ns, want %d", len(o.hops[3].windows), got, sum)
		}
		if o.width > 1024 && len(o.hops[3].windows) <= o.most/2 {
			t.Fatalf("%d windows of %d ns: they are too wide", len(o.hops[3].windows), o.width)
		}
		most := 0.0
		for first := int64(0); first < at; first += o.width {
			ns := 0.0
			for us := range busy {
				if from, to := max(int64(us)*1000, first), min(int64(us+1)*1000, first+o.width); busy[us] && to > from {
					ns += float64(to - from)
				}
			}
			most = max(most, ns/float64(o.width))
		}
		if p := *o.peak(3); p < most-1e-9 || p > most+1e-9 {
			t.Fatalf("peak %g, want %g", p, most)
		}
	})
}

func TestDroppedSegmentsOccupyNothing(t *testing.T) {
	o := newOccupation(1)
	o.add(0, &link.HopRecord{Dur: 10, Bytes: 10, Flags: link.Dropped})
	if o.load(0) != (hopLoad{}) || *o.peak(0) != 0 {
		t.Errorf("%+v", o.load(0))
	}
}

// The table has the busiest hops, without links that are not slower than their ports.
func TestHops(t *testing.T) {
	c := configs.Default()
	c.Nodes = 8
	c.Link.Bandwidth = 10 * units.Gbps
	f, err := fabric.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Shape("node1:node2", patch(t, "bw", "1Gbps")); err != nil {
		t.Fatal(err)
	}
	busy := map[string]time.Duration{"node0 tx": 2, "node1 rx": 5, "node0:node1": 9, "node1:node2": 8, "node2 tx": 1,
		"node3 tx": 1}
	all := usesOf(f, func(hop int) hopLoad {
		b := busy[f.HopName(hop)]
		return hopLoad{uint64(b) * 1000, b * time.Millisecond}
	}, nil)
	var names []string
	for _, l := range all {
		names = append(names, l.Name+"/"+l.Kind)
	}
	if got := strings.Join(names, ", "); got != "node1:node2/link, node1 rx/rx, node0 tx/tx, node2 tx/tx, node3 tx/tx" {
		t.Error(got)
	}
}

func patch(t *testing.T, flag, value string) (p configs.LinkPatch) {
	t.Helper()
	for _, m := range configs.LinkParams() {
		if m.Flag == flag {
			if err := m.Set(&p, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p
}
