// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/run/verify"
	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/world"
)

// scale is a time scale that two cores can carry while others use them too: 20 Gb/s are 20 MB/s.
const scale = 128

// tries is the number of attempts for a fabric that must be VALID: other work on the host is noise that verify cannot
// always distinguish from a fault.
const tries = 4

// user runs commands on fabrics of its own.
type user struct{ *world.World }

func newUser(t *testing.T) *user { return &user{world.New(t)} }

func (w *user) up(t *testing.T, args ...string) {
	t.Helper()
	w.Run(append([]string{"up", "--no-measure"}, args...)...)
}

// verify runs `ddlemu verify --json` and returns its report and exit status.
func (w *user) verify(t *testing.T, args ...string) (r verify.Report, status int) {
	t.Helper()
	o := w.Try(append([]string{"verify", "--json"}, args...)...)
	if status = o.Exit; json.Unmarshal([]byte(o.Stdout), &r) != nil {
		t.Fatalf("exit status %d: %s", status, o.Text())
	}
	if (status == 0) != (r.Verdict == "VALID") || status != 0 && status != 3 {
		t.Errorf("exit status %d with verdict %s", status, r.Verdict)
	}
	return r, status
}

// valid runs verify until the verdict is VALID.
func (w *user) valid(t *testing.T, args ...string) verify.Report {
	t.Helper()
	for try := 1; ; try++ {
		r, status := w.verify(t, args...)
		if status == 0 {
			t.Logf("VALID in try %d, after %.0f s", try, r.Seconds)
			return r
		}
		if t.Logf("try %d: %q", try, r.Reasons); try == tries {
			t.Fatalf("INVALID %d times", tries)
		}
	}
}

// exact runs verify on a fabric with a virtual clock, where every message is at the model's time.
func (w *user) exact(t *testing.T, args ...string) verify.Report {
	t.Helper()
	r, status := w.verify(t, args...)
	if status != 0 || r.Exact == nil || r.Exact.Off != 0 || r.Exact.Messages < 1000 {
		t.Errorf("%s %q, %+v", r.Verdict, r.Reasons, r.Exact)
	}
	return r
}

func TestTopologies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		links      int
		rate, us   float64 // of the named link, by formula: payload Gb/s and latency
		link       string
		fairIncast bool
	}{
		// 20 x 8960 / 9038; 8 bytes and 78 of headers occupy the line for 34.4 ns.
		{"star", 12, 19.827, 10.0344, "node2:node3", true},
		// A rail's uplink has 4 x 20 / 2 Gb/s, so the NIC is the bottleneck.
		{"rail", 48, 19.683, 7.0296, "node0.nic0:node3.nic1", true},
		{"leaf-spine", 56, 39.655, 7.0172, "node1:node6", false},
		{"custom", 6, 9.9137, 11.0688, "node0:node2", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newUser(t)
			w.up(t, "-f", filepath.Join("testdata", tc.name+".yaml"), "--clock", "virtual")
			r := w.exact(t, "--time", "200ms")
			if len(r.Links) != tc.links {
				t.Errorf("%d links measured, want %d", len(r.Links), tc.links)
			}
			checkLinks(t, r.Links)
			for i := range r.Links {
				l := &r.Links[i]
				if l.Name == tc.link &&
					(math.Abs(l.Rate.Asked/1e9/tc.rate-1) > 1e-3 || math.Abs(l.Latency.Asked-tc.us) > 1e-3) {
					t.Errorf("%s is asked for %.4f Gb/s and %.4f us, want %.4f and %.4f", l.Name, l.Rate.Asked/1e9,
						l.Latency.Asked, tc.rate, tc.us)
				}
			}
			for _, f := range r.Incast.Flows {
				if n := float64(len(r.Incast.Flows)); tc.fairIncast && math.Abs(f.Share*n-1) > 0.01 {
					t.Errorf("incast: %s has %.2f %% of all, want 1/%.0f", f.Name, 100*f.Share, n)
				}
			}
			if s := r.Together; math.Abs(s.Error) > 1 || s.Low < 0 || s.High > 0 {
				t.Errorf("all to all: %+.2f %%, flows %+.2f to %+.2f %%", s.Error, s.Low, s.High)
			}
		})
	}
}

// On a long path with rdma, the receiver's first clear-to-send takes as long as a message. Verify must not count this
// as latency of messages that are sent before it arrives.
func TestLongWay(t *testing.T) {
	t.Parallel()
	w := newUser(t)
	w.up(t, "--profile", "roce100", "--nodes", "2", "--lat", "1ms", "--clock", "virtual")
	checkLinks(t, w.exact(t).Links)
}

// checkLinks checks each link against the limits, independently of the verdict.
func checkLinks(t *testing.T, links []verify.Link) {
	t.Helper()
	for i := range links {
		l := &links[i]
		if math.Abs(l.Rate.Got/l.Rate.Asked-1) > 0.01 {
			t.Errorf("%s: %.4g Gb/s, asked %.4g", l.Name, l.Rate.Got/1e9, l.Rate.Asked/1e9)
		}
		if off := math.Abs(l.Latency.P50 - l.Latency.Asked); off > max(1, 0.02*l.Latency.Asked) {
			t.Errorf("%s: p50 %.4g us, asked %.4g", l.Name, l.Latency.P50, l.Latency.Asked)
		}
	}
}

// On the real clock the host adds what it can, and verify still finds the fabric that was asked for.
func TestRealClock(t *testing.T) {
	w := newUser(t)
	w.up(t, "-f", "testdata/star.yaml", "--nodes", "3", "--set", "time_scale="+fmt.Sprint(scale))
	checkLinks(t, w.valid(t, "--time", "3s").Links)
}

// Four senders into one NIC get a quarter each.
func TestIncast(t *testing.T) {
	t.Parallel()
	w := newUser(t)
	w.up(t, "-f", "testdata/star.yaml", "--nodes", "5", "--clock", "virtual")
	r := w.exact(t)
	if len(r.Incast.Flows) != 4 {
		t.Fatalf("%d flows", len(r.Incast.Flows))
	}
	for _, f := range r.Incast.Flows {
		if math.Abs(f.Share/0.25-1) > 0.01 {
			t.Errorf("%s has %.2f %% of all, want 25 +- 0.25", f.Name, 100*f.Share)
		}
	}
}

// No host can carry 800 Gb/s in real time.
func TestTooMuch(t *testing.T) {
	w := newUser(t)
	w.up(t, "--profile", "xdr800")
	r, status := w.verify(t, "--time", "1s")
	if all := strings.Join(r.Reasons, "\n"); status != 3 || !strings.Contains(all, "node0:node1: rate") ||
		!strings.Contains(all, "node1:node0: rate") {
		t.Errorf("exit status %d, %q", status, r.Reasons)
	}
}

// Faults planted in the engine that carries the messages.
func TestPlantedFaults(t *testing.T) {
	w := newUser(t)
	w.up(t, "-f", "testdata/star.yaml", "--nodes", "2", "--set", "time_scale="+fmt.Sprint(scale))
	w.Program = built.Path(t, "faults", "ddlemu")
	w.valid(t, "--time", "2s") // without a fault
	for _, tc := range []struct{ fault, says string }{
		{"slow 3", "node0:node1: rate"},
		{fmt.Sprint("delay ", 10_000*scale), "node0:node1: latency p50"},
		{fmt.Sprint("late 20 ", 10_000*scale), "node0:node1: messages come"},
	} {
		t.Run(strings.Fields(tc.fault)[0], func(t *testing.T) {
			w.Env = []string{"DDLEMU_FAULT=" + tc.fault}
			r, status := w.verify(t, "--time", "2s")
			if status != 3 || !strings.Contains(strings.Join(r.Reasons, "\n"), tc.says) {
				t.Errorf("exit status %d, %q, want %q", status, r.Reasons, tc.says)
			}
		})
	}
}
