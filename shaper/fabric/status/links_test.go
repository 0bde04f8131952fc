// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// Of many links those are shown that are down, and then those with the most bytes, in their order.
func TestBusiest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 8
		links := make([]status.Link, rapid.IntRange(0, 3*most).Draw(t, "links"))
		for i := range links {
			links[i] = status.Link{LinkJSON: configs.LinkJSON{Up: rapid.IntRange(0, 3).Draw(t, "up") > 0},
				Counters: link.Counters{Bytes: rapid.Uint64Range(0, 5).Draw(t, "bytes")}, Messages: uint64(i)}
		}
		shown := status.Busiest(links, most)
		if len(shown) != min(len(links), most) {
			t.Fatalf("%d of %d links", len(shown), len(links))
		}
		matters := func(l status.Link) uint64 {
			if !l.Up {
				return 100
			}
			return l.Bytes
		}
		least := uint64(100)
		for i, l := range shown {
			if least = min(least, matters(l)); i > 0 && l.Messages <= shown[i-1].Messages {
				t.Fatalf("not in their order: %+v", shown)
			}
		}
		for _, l := range links {
			if !slices.ContainsFunc(shown, func(s status.Link) bool { return s.Messages == l.Messages }) &&
				matters(l) > least {
				t.Fatalf("%+v is not in %+v", l, shown)
			}
		}
	})
}

// Links and ports are the hops. On a fabric with switches a link between NICs has its whole path.
func TestLinksAndPorts(t *testing.T) {
	file, fab := bringUp(t, "../../../configs/examples/leaf-spine.yaml", configs.Shm)
	last := fab.NICs() - 1 // on another switch than the first
	file.Count(fab.Link(0, last), link.Counters{Bytes: 5})
	f, err := status.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	links, ports := f.Links(), f.Ports()
	if len(links)+len(ports) != len(fab.Hops) || len(ports) != 2*fab.NICs() || ports[1].Direction != "rx" {
		t.Errorf("%d links and %d ports of %d hops", len(links), len(ports), len(fab.Hops))
	}
	trunks := 0
	for _, h := range fab.Hops {
		if h.Kind == link.Trunk {
			trunks++
		}
	}
	for _, l := range links {
		if l.Trunk {
			trunks--
		}
		whole := fab.WorstPath(0, last)
		switch {
		case l.Trunk != (l.Path == nil) || l.Classes != nil:
			t.Errorf("%+v", l)
		case l.From == "node0" && l.To == fab.NICName(last) && (l.Bytes != 5 || l.Path.LatencyNs != int64(whole.Latency) ||
			l.Path.BandwidthBps != uint64(whole.Bandwidth) || l.Path.LatencyNs <= int64(l.Set.Latency)):
			t.Errorf("%+v, %+v, want the path of %+v", l, l.Path, whole)
		}
	}
	if trunks != 0 {
		t.Errorf("%d trunks are missing", trunks)
	}
}
