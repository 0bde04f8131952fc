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

// checked is the result of check.
type checked struct {
	reasons []string // for INVALID
	off     []string // figures that differ from the expected ones
}

// check runs verify and compares each link's payload rate in Gb/s and its latency in us with expected values. The
// latency may differ by tolerance us.
func (w *user) check(links int, rate, latency, tolerance float64) func() (checked, error) {
	return func() (checked, error) {
		r, err := w.verify()
		c := checked{reasons: r.Reasons}
		for _, l := range r.Links {
			if math.Abs(l.Rate.Got/1e9/rate-1) > 0.01 || math.Abs(l.Latency.P50-latency) > tolerance || l.Loss != nil {
				c.off = append(c.off, fmt.Sprintf("%s: %.4g Gb/s, %.0f us, losses %v", l.Name, l.Rate.Got/1e9,
					l.Latency.P50, l.Loss))
			}
		}
		if len(r.Links) != links || r.Together == nil || len(r.Together.Flows) != links || r.Incast == nil {
			c.off = append(c.off, fmt.Sprintf("%d links measured, want %d", len(r.Links), links))
		}
		return c, err
	}
}

func sound(c checked) bool { return len(c.reasons) == 0 && len(c.off) == 0 }

// hasReason returns a predicate: a text is in the reasons for INVALID.
func hasReason(text string) func(checked) bool {
	return func(c checked) bool { return strings.Contains(strings.Join(c.reasons, "\n"), text) }
}

// A fabric that conforms to its parameters is VALID. It is INVALID after a change by tc that ddlemu does not know of,
// or if it is shaped or used during the measurement.
func TestVerifyWire(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--shaper", "wire", "--bw", "100Mbps", "--lat", "10ms", "--nodes", "3")
	check := w.check(6, 0.0949285, 10005.92, 200)
	within(t, "unchanged", check, sound)

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

	meanwhile := func(what func()) func() (checked, error) {
		return func() (checked, error) {
			timer := time.AfterFunc(1500*time.Millisecond, what)
			defer timer.Stop()
			return check()
		}
	}
	within(t, "used during the measurement", meanwhile(func() {
		_ = flood(w.node("eth1", 0), to, 20_000_000, 200*time.Millisecond) // if it fails, the reason is missing
	}), hasReason("other programs sent on the fabric while it was measured: node0:node1"))
	latency := 10
	within(t, "shaped during the measurement", meanwhile(func() {
		latency++
		w.try("shape", "--link", "node2>node0", "--lat", fmt.Sprintf("%dms", latency))
	}), hasReason("node2:node0 was changed while it was measured"))
	w.run("shape", "--link", "node2>node0", "--lat", "10ms")

	w.run("exec", "node1", "--", "tc", "class", "change", "dev", "eth0", "parent", "1:1", "classid", "1:10", "htb",
		"rate", "20mbit", "ceil", "90mbit")
	within(t, "changed by tc", check, func(c checked) bool {
		return hasReason("node1:node0: rate 0.0")(c) &&
			!slices.ContainsFunc(c.off, func(s string) bool { return !strings.HasPrefix(s, "node1:node0:") })
	})

	begin := time.Now()
	state, out := w.interrupt(moment{"after 1 s", after(time.Second), false}, "verify")
	if took := time.Since(begin); state.ExitCode() != 130 || took > 3*time.Second {
		t.Errorf("interrupted: exit status %d after %v: %s", state.ExitCode(), took, out)
	}
}

// htb enforces rates and equal shares, and adds no latency. On a machine whose timers are late, it sends less, and
// verify finds that.
func TestVerifyHTB(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--shaper", "htb", "--bw", "100Mbps", "--lat", "0s", "--nodes", "3")
	check := w.check(6, 0.0949285, 0, 100)
	measure.Repeat(t, "unchanged", func() (string, float64, error) {
		got, err := check()
		if err != nil || sound(got) {
			return fmt.Sprint(got), 0, err
		}
		return fmt.Sprint(got), deviation(got), nil
	})
}

// deviation is by which share the rates that verify found wrong are off, on average. Late timers also make messages late,
// so reasons with a time do not count. It is measure.Wrong if no rate is off, or if there is any other reason.
func deviation(c checked) float64 {
	sum, n := 0.0, 0
	for _, reason := range c.reasons {
		off := rateOff.FindStringSubmatch(reason)
		if off == nil {
			if !strings.Contains(reason, " us") {
				return measure.Wrong
			}
			continue
		}
		percent, err := strconv.ParseFloat(off[1], 64)
		if err != nil {
			return measure.Wrong
		}
		sum, n = sum+math.Abs(percent)/100, n+1
	}
	if n == 0 {
		return measure.Wrong
	}
	return sum / float64(n)
}

// rateOff finds by how many percent a rate is off in a reason of verify.
var rateOff = regexp.MustCompile(`Gb/s.*: ([-+][\d.]+) % \(limit`)

// No host forwards a packet in 1 us, so a fabric with that latency is INVALID.
func TestVerifyTooFast(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--shaper", "wire", "--bw", "50Mbps", "--lat", "1us")
	within(t, "1 us", w.check(2, 0.0474642, 0, math.Inf(1)), hasReason("node0:node1: latency p50"))
}
