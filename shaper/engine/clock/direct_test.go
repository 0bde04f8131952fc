// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"math"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// localLinks are links of 1 GB/s with 100 ns between 2 GPUs: out of and into each, or of a mesh.
func localLinks() (specs []link.Spec) {
	for range 4 {
		specs = append(specs, gigabyte(100*time.Nanosecond))
	}
	return specs
}

// A message between GPUs arrives when it has crossed the links of its kind, without a receive or a proxy, and only its
// receiver's node is woken.
func TestDirectFlow(t *testing.T) {
	for _, tc := range []struct {
		name string
		mesh bool
		kind uint32
		took int64
	}{
		{"through a switch", false, 0, 1000 + 200},
		{"of a mesh", true, 0, 1000 + 100},
		{"that a switch reduces", false, 1, 1000 + 100},
		{"that a switch broadcasts", false, 2, 1000 + 100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := open(t, 2, localLinks())
			w.nodeTime(tc.mesh)
			x := w.direct(0, 1, tc.kind)
			if w.arrived(1, x) != 0 || !w.postDirect(0, x, 1000) || !w.postDirect(0, x, 500) || w.arrived(1, x) != 0 {
				t.Fatal("a message has arrived before time has gone on, or was not posted")
			}
			for i, want := range []int64{tc.took, tc.took + 500} {
				w.idle(0)
				w.idle(1)
				w.run(0)
				if n := w.arrived(1, x); w.now() != start+want || n != uint64(i+1) {
					t.Errorf("%d messages have arrived after %d ns, want %d after %d", n, w.now()-start, i+1, want)
				}
			}
		})
	}
}

// Messages of several flows share the links of a GPU.
func TestDirectFlowsShareLinks(t *testing.T) {
	w := open(t, 2, localLinks())
	w.nodeTime(false)
	x, y := w.direct(0, 1, 0), w.direct(0, 1, 1)
	w.postDirect(0, x, 1000)
	w.postDirect(0, y, 1000)
	for w.arrived(1, y) == 0 && w.now() < start+1e6 {
		w.idle(0)
		w.idle(1)
		w.run(0)
	}
	if took := w.now() - start; took != 2100 {
		t.Errorf("the second message took %d ns, want 2100", took)
	}
}

// A direct flow is freed when both of its ranks have left or died, and not before: the other one may still read what
// was sent. Its name is not used again.
func TestDirectFlowsAreFreed(t *testing.T) {
	w := open(t, 2, localLinks())
	w.nodeTime(false)
	x := w.direct(0, 1, 0)
	w.arrived(1, x)
	w.postDirect(0, x, 1000)
	w.leaveDirect(0)
	for range 2 {
		w.idle(0)
		w.idle(1)
		w.run(0)
	}
	if w.arrived(1, x) != 1 {
		t.Error("the message of a rank that has left is lost")
	}
	w.leaveDirect(1)
	w.idle(0)
	w.idle(1)
	w.run(0)
	if !w.isFree(w.at(0)) || w.postDirect(0, x, 1) {
		t.Error("a flow whose ranks have left is still there")
	}
	if y := w.direct(0, 1, 0); y == x || w.arrived(1, x) != 0 {
		t.Errorf("flow %x has the name of the one before it", y)
	}
	w.fill()
	if w.direct(0, 1, 0) != 0 {
		t.Error("there is a flow although all places are taken")
	}
}

// Whoever repairs a clock that a dead rank has left half run finds the messages of direct flows.
func TestDirectFlowsAfterADeath(t *testing.T) {
	w := open(t, 2, localLinks())
	w.nodeTime(false)
	x := w.direct(0, 1, 0)
	w.postDirect(0, x, 1000)
	w.die(0, true)
	w.idle(1)
	w.run(1)
	if w.arrived(1, x) != 1 || w.now() != start+1200 {
		t.Errorf("%d messages after %d ns, want 1 after 1200", w.arrived(1, x), w.now()-start)
	}
}

// The ends of a direct flow whose path is corrupt learn it: no message arrives any more.
func TestBrokenDirectFlow(t *testing.T) {
	w := open(t, 2, localLinks())
	w.nodeTime(false)
	x := w.direct(0, 1, 0)
	corruptPath(w.at(0))
	w.postDirect(0, x, 1000)
	w.idle(0)
	w.idle(1)
	w.run(0)
	if w.arrived(1, x) != math.MaxUint64 || w.postDirect(0, x, 1000) {
		t.Errorf("%d messages have arrived, want a broken flow", w.arrived(1, x))
	}
}
