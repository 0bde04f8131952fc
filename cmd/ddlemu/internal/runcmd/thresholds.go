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
	minBusBW  float64 // bytes per second; 0 is not set
	maxTime   time.Duration
}

// AddFlags adds the names to --require of fs.
func (t *thresholds) AddFlags(fs *pflag.FlagSet) {
	require(fs, "model", t.tolerance.parse, "model=3% over the expected time")
	require(fs, "busbw", t.setBusBW, "busbw=12.5GB/s or more")
	require(fs, "time", t.setTime, "time=500us or less")
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
		if t.minBusBW > 0 && r.Size > 0 && m.BusBW*1e9 < t.minBusBW {
			add("busbw", "the bus bandwidth is %.4g GB/s, --require busbw=%.4gGB/s", m.BusBW,
				t.minBusBW/1e9)
		}
		if t.maxTime > 0 && m.Time > t.maxTime {
			add("time", "it took %v, --require time=%v", m.Time, t.maxTime)
		}
	}
	return out
}

// allMissed returns what of all rows is not as asked for, and of how many of them.
func (t *thresholds) allMissed(rows []bench.Row) (all []bench.Miss, n int) {
	for _, r := range rows {
		m := t.missed(r)
		all = append(all, m...)
		n += min(len(m), 1)
	}
	return all, n
}

// judge returns an error if rows are not as asked for.
func (t *thresholds) judge(rows []bench.Row) error {
	all, n := t.allMissed(rows)
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %s not as asked for: %s", n, units.Count(len(rows), "row"), all[0].Text)
	if more := len(all) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more, which --junit FILE lists", more)
	}
	return &missedError{text}
}

// missedError says which rows miss the user's thresholds: exit status 1.
type missedError struct{ text string }

func (e *missedError) Error() string { return e.text }

// setTime reads a duration.
func (t *thresholds) setTime(text string) (err error) {
	t.maxTime, err = time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a time with its unit, such as 500us", text)
	case t.maxTime <= 0:
		return fmt.Errorf("%v: must be above 0", t.maxTime)
	}
	return nil
}

// setBusBW reads a rate. Without a unit nobody could tell bits from bytes: nccl-tests prints bus bandwidths in GB/s.
func (t *thresholds) setBusBW(text string) error {
	if strings.TrimRight(text, "0123456789. kKMGT") == "" {
		return fmt.Errorf("%q has no unit: write bits per second as 100Gbps, bytes per second as 12.5GB/s", text)
	}
	v, err := units.ParseBandwidth(text)
	if err == nil && v == units.Unlimited {
		err = fmt.Errorf("%q: no row is that fast: write 12.5GB/s or 100Gbps", text)
	}
	t.minBusBW = float64(v) / 8
	return err
}

// percent is a value of --require: a number of 0 or more with a percent sign.
type percent struct {
	value float64
	set   bool
}

// parse reads a percentage.
func (p *percent) parse(text string) error {
	number, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || !(v >= 0 && v <= 1e6) {
		return fmt.Errorf("%q is not a percentage: write 3%% or 0.5%%", text)
	}
	*p = percent{v, true}
	return nil
}

func (p *percent) String() string { return strconv.FormatFloat(p.value, 'f', -1, 64) + "%" }
