// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/run/verify"
	"github.com/ddlemu/ddlemu/test/measure"
)

// verify runs `ddlemu verify --json` and returns its report.
func (w *user) verify(args ...string) (verify.Report, error) {
	w.Helper()
	out, status := w.try(append([]string{"verify", "--json", "--time", "2s"}, args...)...)
	var r verify.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return r, fmt.Errorf("exit status %d: %w: %s", status, err, out)
	}
	if want := map[string]int{"VALID": 0, "INVALID": 3}[r.Verdict]; status != want {
		return r, fmt.Errorf("exit status %d with verdict %s", status, r.Verdict)
	}
	return r, nil
}

// figures are what verify should measure on each link: the payload rate in Gb/s, which may differ by 1 %, and the
// latency in us, which may differ by tolerance us.
type figures struct {
	links                    int
	rate, latency, tolerance float64
}

// tries returns a try for measure.Repeat: it runs verify and judges what it measured.
func (w *user) tries(want figures) func() (measure.Result, error) {
	return func() (measure.Result, error) {
		r, err := w.verify()
		return want.judge(r), err
	}
}

// judge judges a report of verify, on a fabric without losses that should be VALID.
func (f figures) judge(r verify.Report) measure.Result {
	result := measure.Result{IsRate: true}
	for _, l := range r.Links {
		f.judgeLink(&result, l)
	}
	if len(r.Links) != f.links || r.Together == nil || len(r.Together.Flows) != f.links || r.Incast == nil {
		result.Got, result.Wrong = fmt.Sprintf("%d links measured, want %d; ", len(r.Links), f.links), true
	}
	for _, reason := range r.Reasons {
		addReason(&result, reason)
	}
	return result
}

func (f figures) judgeLink(result *measure.Result, l verify.Link) {
	rate := measure.Rate(l.Rate.Got/1e9, f.rate, 0.01)
	early, late := l.Latency.P50 < f.latency-f.tolerance, l.Latency.P50 > f.latency+f.tolerance
	result.Low = max(result.Low, rate.Low)
	result.Late = result.Late || late
	result.Wrong = result.Wrong || rate.Wrong || early || l.Loss != nil || math.IsNaN(l.Latency.P50)
	if rate.Low > 0 || rate.Wrong || early || late || l.Loss != nil {
		result.Got += fmt.Sprintf("%s: %.4g Gb/s, %.0f us, losses %v; ", l.Name, l.Rate.Got/1e9, l.Latency.P50, l.Loss)
	}
}

// addReason adds a reason of verify for INVALID to a result. Only what says that a rate is too low or a message late can
// be caused by late timers.
func addReason(result *measure.Result, reason string) {
	result.Got += reason + "; "
	if low := lowRate.FindStringSubmatch(reason); low != nil {
		percent, err := strconv.ParseFloat(low[1], 64)
		result.Low, result.Wrong = max(result.Low, percent/100), result.Wrong || err != nil
		return
	}
	result.Late = true
	result.Wrong = result.Wrong || !lateMessages.MatchString(reason)
}

var (
	// lowRate finds in a reason of verify by how many percent a rate is too low.
	lowRate = regexp.MustCompile(`Gb/s.*: -([\d.]+) % \(limit`)
	// lateMessages matches the reasons that say that messages came too late: a positive difference, or a lateness.
	lateMessages = regexp.MustCompile(`latency p50 [\d.]+ us, asked [\d.]+: \+[\d.]+ us \(limit|` +
		`: messages come [\d.]+ us late \(p|: the shaper is late: |this process gets too little processor time`)
)

// A fabric that conforms to its parameters is VALID. It is INVALID after a change by tc that ddlemu does not know of,
// or if it is shaped or used during the measurement.
func TestVerifyWire(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--set", "shaper=wire", "--bw", "100Mbps", "--lat", "10ms", "--nodes", "3")
	want := figures{links: 6, rate: 0.0949285, latency: 10005.92, tolerance: 200}
	measure.Repeat(t, "unchanged", w.tries(want))

	to := net.JoinHostPort(w.node("eth1", 1).NICs[0].Addr4.String(), "9")
	busy := make(chan error, 1)
	go func() { busy <- flood(w.node("eth1", 0), to, 20_000_000, 2*time.Second) }()
	time.Sleep(100 * time.Millisecond)
	if out, status := w.try("verify"); status != 2 || !strings.Contains(out, "fabric eth1 is in use: ") ||
		!strings.Contains(out, "passed node0:node1") {
		t.Errorf("fabric in use: exit status %d: %s", status, out)
	}
	if err := <-busy; err != nil {
		t.Fatal(err)
	}

	// hasReason checks that verify finds what happens while it measures. The figures may be any.
	hasReason := func(what, reason string, cause func()) {
		within(t, what, func() ([]string, error) {
			timer := time.AfterFunc(1500*time.Millisecond, cause)
			defer timer.Stop()
			r, err := w.verify()
			return r.Reasons, err
		}, containsText(reason))
	}
	hasReason("used during the measurement", "other programs sent on the fabric while it was measured: node0:node1",
		func() { _ = flood(w.node("eth1", 0), to, 20_000_000, 200*time.Millisecond) }) // if it fails, the reason is missing
	latency := 10
	hasReason("shaped during the measurement", "node2:node0 was changed while it was measured", func() {
		latency++
		w.try("shape", "--link", "node2>node0", "--lat", fmt.Sprintf("%dms", latency))
	})
	w.run("shape", "--link", "node2>node0", "--lat", "10ms")

	w.run("exec", "node1", "--", "tc", "class", "change", "dev", "eth0", "parent", "1:1", "classid", "1:10", "htb",
		"rate", "20mbit", "ceil", "90mbit")
	const changed = "node1:node0"
	measure.Repeat(t, "changed by tc", func() (measure.Result, error) {
		r, err := w.verify()
		result := measure.Exact(r.Reasons, containsText(changed+": rate 0.0")(r.Reasons))
		for _, l := range r.Links {
			if l.Name != changed {
				want.judgeLink(&result, l)
			}
		}
		return result, err
	})

	begin := time.Now()
	state, out := w.interrupt(moment{"after 1 s", after(time.Second), false}, "verify")
	if took := time.Since(begin); state.ExitCode() != 130 || took > 3*time.Second {
		t.Errorf("interrupted: exit status %d after %v: %s", state.ExitCode(), took, out)
	}
}

// containsText returns a predicate: a text is in one of several.
func containsText(text string) func([]string) bool {
	return func(all []string) bool {
		return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, text) })
	}
}

// htb enforces rates and equal shares, and adds no latency.
func TestVerifyHTB(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--set", "shaper=htb", "--bw", "100Mbps", "--lat", "0s", "--nodes", "3")
	measure.Repeat(t, "unchanged", w.tries(figures{links: 6, rate: 0.0949285, latency: 0, tolerance: 100}))
}

// No host forwards a packet in 1 us, so a fabric with that latency is INVALID.
func TestVerifyTooFast(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--set", "shaper=wire", "--bw", "50Mbps", "--lat", "1us")
	within(t, "1 us", func() ([]string, error) {
		r, err := w.verify()
		return r.Reasons, err
	}, containsText("node0:node1: latency p50"))
}
