// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// thresholds are what the user asks of each row, apart from the verdict. The zero value asks for nothing.
type thresholds struct {
	tolerance percent
	minBusBW  busBandwidth
	maxTime   longest
}

// AddFlags adds the names to --require of fs.
func (t *thresholds) AddFlags(fs *pflag.FlagSet) {
	require(fs, "model", &t.tolerance, "model=3% over the expected time")
	require(fs, "busbw", &t.minBusBW, "busbw=12.5GB/s or more")
	require(fs, "time", &t.maxTime, "time=500us or less")
}

// any says whether something is asked for.
func (t *thresholds) any() bool { return t.tolerance.set || t.minBusBW > 0 || t.maxTime > 0 }

// missed returns what of a row is not as asked for. A row that moves nothing is held to the time only.
func (t *thresholds) missed(r bench.Row) []bench.Miss {
	var out []bench.Miss
	for _, m := range r.Measurements() {
		add := func(flag, format string, args ...any) {
			out = append(out,
				bench.Miss{Type: flag, Text: fmt.Sprintf("%d bytes %s: ", r.Size, bench.Place(m.InPlace)) + fmt.Sprintf(format, args...)})
		}
		switch {
		case !t.tolerance.set || r.Size == 0:
		case !m.Known:
			add("model", "no time is expected of it, so it cannot be held to --require model=%v", &t.tolerance)
		case m.Diff > t.tolerance.value:
			add("model", "%v is %.1f %% more than the expected %v, --require model=%v", m.Time, m.Diff, m.Expected,
				&t.tolerance)
		}
		if t.minBusBW > 0 && r.Size > 0 && m.BusBW*1e9 < t.minBusBW.bytes() {
			add("busbw", "the bus bandwidth is %.4g GB/s, --require busbw=%.4gGB/s", m.BusBW,
				t.minBusBW.bytes()/1e9)
		}
		if t.maxTime > 0 && m.Time > time.Duration(t.maxTime) {
			add("time", "it took %v, --require time=%v", m.Time, &t.maxTime)
		}
	}
	return out
}

// judge returns an error if rows are not as asked for.
func (t *thresholds) judge(rows []bench.Row) error {
	var all []bench.Miss
	n := 0
	for _, r := range rows {
		m := t.missed(r)
		all = append(all, m...)
		n += min(len(m), 1)
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %s not as asked for: %s", n, units.Count(len(rows), "row"), all[0].Text)
	if more := len(all) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more, which --junit FILE lists", more)
	}
	return &missedError{text}
}

// printer returns a printer that prints with to and adds the missed thresholds to the end of the output.
func (t *thresholds) printer(to bench.Printer) bench.Printer {
	if !t.any() {
		return to
	}
	return &holding{Printer: to, limits: t}
}

// holding is a printer that holds the rows to the thresholds.
type holding struct {
	bench.Printer
	limits   *thresholds
	failures []bench.Miss
}

// Row holds a row to the limits.
func (h *holding) Row(r bench.Row) error {
	h.failures = append(h.failures, h.limits.missed(r)...)
	return h.Printer.Row(r)
}

// End ends the output with the failures, unless the times say nothing.
func (h *holding) End(s bench.Summary) error {
	if s.Verdict.Valid {
		s.Failures = h.failures
	}
	return h.Printer.End(s)
}

// missedError says which rows miss the user's thresholds: exit status 1.
type missedError struct{ text string }

func (e *missedError) Error() string { return e.text }

// longest is a time above 0, such as 500us. 0 is not set.
type longest time.Duration

// Set reads a duration.
func (l *longest) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a time with its unit, such as 500us", text)
	case d <= 0:
		return fmt.Errorf("%v: must be above 0", d)
	}
	*l = longest(d)
	return nil
}

func (l *longest) String() string { return time.Duration(*l).String() }

// Type names the type for pflag.
func (l *longest) Type() string { return "time" }

// percent is a value of --require: a number of 0 or more with a percent sign.
type percent struct {
	value float64
	set   bool
}

// Set reads a percentage.
func (p *percent) Set(text string) error {
	number, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || !(v >= 0 && v <= 1e6) {
		return fmt.Errorf("%q is not a percentage: write 3%% or 0.5%%", text)
	}
	*p = percent{v, true}
	return nil
}

func (p *percent) String() string {
	if !p.set {
		return ""
	}
	return strconv.FormatFloat(p.value, 'f', -1, 64) + "%"
}

// Type names the flag's type for pflag.
func (p *percent) Type() string { return "percentage" }

// busBandwidth is a value of --require: a rate with its unit, in bits per second. 0 is not set.
type busBandwidth units.Bandwidth

// Set reads a rate. Without a unit nobody could tell bits from bytes: nccl-tests prints bus bandwidths in GB/s.
func (b *busBandwidth) Set(text string) error {
	if strings.TrimRight(text, "0123456789. kKMGT") == "" {
		return fmt.Errorf("%q has no unit: write bits per second as 100Gbps, bytes per second as 12.5GB/s", text)
	}
	v, err := units.ParseBandwidth(text)
	if err != nil {
		return err
	}
	if v == units.Unlimited {
		return fmt.Errorf("%q: no row is that fast: write 12.5GB/s or 100Gbps", text)
	}
	*b = busBandwidth(v)
	return nil
}

func (b *busBandwidth) String() string {
	if *b == 0 {
		return ""
	}
	return units.Bandwidth(*b).String()
}

// Type names the flag's type for pflag.
func (b *busBandwidth) Type() string { return "rate" }

// bytes is the rate in bytes per second.
func (b busBandwidth) bytes() float64 { return float64(b) / 8 }
