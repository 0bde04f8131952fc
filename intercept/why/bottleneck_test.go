// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// part is a time with a cause on a link.
func part(kind Cause, link string, ns int64) Total {
	return Total{Part: Part{Cause: kind, Link: link, Ns: ns}}
}

// The slowest link is named if it took much of the time, with those that took as much; what many links did is summed; a
// full window counts only if no link was busy.
func TestBottleneck(t *testing.T) {
	for name, c := range map[string]struct {
		busy  bool // a:b
		parts []Total
		want  *Bottleneck
		text  string
	}{
		"no time": {},
		"a link and a window": {true, []Total{part(Window, "", 60), part(Queue, "a:b", 25), part(Serialize, "a:b", 5),
			part(Propagation, "", 10)}, &Bottleneck{Link: "a:b", Ns: 30, All: 100},
			"Slowest: a:b, with 30 % of the time of all calls"},
		"a window and no busy link": {false, []Total{part(Window, "", 60), part(Queue, "a:b", 30),
			part(Propagation, "", 10)}, &Bottleneck{Kind: Window, Cause: "full window or send buffer", Ns: 60, All: 100},
			"Most of the time: full window or send buffer, with 60 % of the time of all calls"},
		"many links": {true, []Total{part(Queue, "a:b", 10), part(Queue, "b:c", 10), part(Queue, "c:d", 10),
			part(Propagation, "", 25), part(NotReady, "", 20), part(Host, "", 25)},
			&Bottleneck{Kind: Queue, Cause: "queueing", Links: 3, Ns: 30, All: 100},
			"Most of the time: queueing on 3 ports and links, with 30 % of the time of all calls"},
		"propagation": {false, []Total{part(Queue, "a:b", 20), part(Propagation, "", 80)},
			&Bottleneck{Kind: Propagation, Cause: "propagation", Ns: 80, All: 100},
			"Most of the time: propagation, with 80 % of the time of all calls"},
		"alike": {true, []Total{part(Queue, "a:b", 300), part(Queue, "b:c", 200), part(Serialize, "b:c", 94),
			part(Queue, "c:d", 293), part(Propagation, "", 113)},
			&Bottleneck{Link: "a:b", Alike: []string{"a:b", "b:c"}, Ns: 300, All: 1000},
			"Slowest: 2 links alike (a:b, b:c), with 30 % of the time of all calls each"},
		"many alike": {true, []Total{part(Queue, "a:b", 20), part(Queue, "b:c", 20), part(Queue, "c:d", 20),
			part(Queue, "d:e", 20), part(Queue, "e:f", 20)},
			&Bottleneck{Link: "a:b", Alike: []string{"a:b", "b:c", "c:d", "d:e", "e:f"}, Ns: 20, All: 100},
			"Slowest: 5 links alike (a:b, b:c, c:d, d:e, ...), with 20 % of the time of all calls each"},
	} {
		got := findBottleneck([]Function{{Parts: c.parts}}, func(link string) bool { return c.busy && link == "a:b" })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got != nil && got.String() != c.text {
			t.Errorf("%s: %q, want %q", name, got, c.text)
		}
	}
}

// A link has the time of all causes that are about it, also that of windows and paused links that wait for its queue.
func TestByLink(t *testing.T) {
	congested := part(Paused, "node0 tx", 30)
	congested.Congested = "a:b"
	window := part(Window, "", 20)
	window.Congested = "a:b"
	got := ByLink([]Total{part(Queue, "c:d", 60), congested, part(Queue, "a:b", 15), window, part(Propagation, "", 9)})
	if want := []LinkTime{{"a:b", 65}, {"c:d", 60}}; !slices.Equal(want, got) {
		t.Errorf("%v, want %v", got, want)
	}
}
