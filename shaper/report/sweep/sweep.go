// SPDX-License-Identifier: Apache-2.0

// Package sweep has the values of a parameter of all links for which something is calculated or measured, and says what
// changes from one value to the next.
package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Values are the values of a parameter.
type Values struct {
	Param string // the flag, such as bw
	List  []Value
}

// Value is one of them.
type Value struct {
	Text string // as a person writes it, with its unit
	// Number is bits per second, seconds, or a share of the packets; NaN for a parameter whose values have no order.
	Number float64
}

// mostListed is how many values a text lists.
const mostListed = 4

// String lists the values; of many it has the first, the last and their number.
func (v *Values) String() string {
	var all []string
	for _, value := range v.List {
		all = append(all, value.Text)
	}
	if n := len(all); n > mostListed {
		return fmt.Sprintf("%s to %s in %d values", all[0], all[n-1], n)
	}
	return strings.Join(all, " or ")
}

// maxValues is the maximum number of values.
const maxValues = 100

// parameter is one whose values have an order, and so can be a range.
type parameter struct {
	parse func(text string) (number float64, written string, err error)
	// usual are the values between the ends of a range: the rates of NICs, and latencies and losses.
	usual []string
	// slowFirst says that the smallest value is the slowest network, otherwise the largest is.
	slowFirst bool
}

var ordered = map[string]parameter{
	"bw": {parseRate, []string{
		"1Gbps", "10Gbps", "25Gbps", "40Gbps", "50Gbps", "100Gbps", "200Gbps", "400Gbps", "800Gbps", "1600Gbps",
	}, true},
	"lat": {parseLatency, []string{"1us", "3us", "10us", "30us", "100us", "300us", "1ms", "3ms", "10ms", "30ms",
		"100ms"}, false},
	"loss": {parseLoss, []string{
		"1e-8", "1e-7", "1e-6", "1e-5", "1e-4", "0.1%", "1%", "10%",
	}, false},
}

func parseRate(text string) (float64, string, error) {
	b, err := units.ParseBandwidth(text)
	if err == nil && b == units.Unlimited {
		err = fmt.Errorf("bandwidth %s: must be above 0 and not unlimited", text)
	}
	return float64(b), b.String(), err
}

func parseLatency(text string) (float64, string, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("latency %s: must be above 0", text)
	}
	return d.Seconds(), text, err
}

func parseLoss(text string) (float64, string, error) {
	l, err := configs.ParseLoss(text)
	return l.Mean(), text, err
}

// Parameters are the names of those that can be swept: all flags of links.
func Parameters() (names []string) {
	for _, s := range configs.Settings() {
		for _, m := range configs.LinkParams() {
			if m.Flag == s.Flag {
				names = append(names, m.Flag)
			}
		}
	}
	return names
}

// Parse reads bw=10G..800G, lat=1us..1ms, loss=1e-6..1%, or a list such as bw=10G,25G or queue=1M,lossless. A range is
// its ends, and the usual values between them. A list may be divided by semicolons, if values have commas.
func Parse(text string) (*Values, error) {
	param, values, ok := strings.Cut(text, "=")
	if !ok || !slices.Contains(Parameters(), param) {
		return nil, fmt.Errorf("must be a parameter (%s) and its values, such as bw=10G..800G or lat=1us,10us",
			strings.Join(Parameters(), ", "))
	}
	if values == "" {
		return nil, errors.New("no value: give some, such as bw=10G..800G or lat=1us,10us")
	}
	divider := ","
	if strings.Contains(values, ";") {
		divider = ";"
	}
	list := strings.Split(values, divider)
	if from, to, ranged := strings.Cut(values, ".."); ranged {
		var err error
		if list, err = between(param, from, to); err != nil {
			return nil, err
		}
	}
	if len(list) < 2 || len(list) > maxValues {
		return nil, fmt.Errorf("%s: must be 2 to %d", units.Count(len(list), "value"), maxValues)
	}
	v := &Values{Param: param}
	for _, text := range list {
		value, err := valueOf(param, text)
		if err != nil {
			return nil, err
		}
		v.List = append(v.List, value)
	}
	return v, nil
}

// between are the ends of a range and the usual values between them.
func between(param, from, to string) ([]string, error) {
	p, ok := ordered[param]
	if !ok {
		return nil, fmt.Errorf("%s..%s: %s has no ranges: give a list, as %[3]s=%[1]s,%[2]s", from, to, param)
	}
	first, _, err := p.parse(from)
	if err != nil {
		return nil, err
	}
	last, _, err := p.parse(to)
	if err != nil {
		return nil, err
	}
	if last <= first {
		return nil, fmt.Errorf("%s..%s ends before it begins", from, to)
	}
	list := []string{from}
	for _, text := range p.usual {
		if n, _, err := p.parse(text); err == nil && n > first && n < last {
			list = append(list, text)
		}
	}
	return append(list, to), nil
}

func valueOf(param, text string) (Value, error) {
	if p, ok := ordered[param]; ok {
		n, written, err := p.parse(text)
		return Value{written, n}, err
	}
	for _, m := range configs.LinkParams() {
		if m.Flag == param {
			if err := m.Set(&configs.LinkPatch{}, text); err != nil {
				return Value{}, err
			}
		}
	}
	return Value{text, math.NaN()}, nil
}

// SlowFirst are the places of the values from the slowest network to the fastest; nil for a parameter whose values
// have no order.
func (v *Values) SlowFirst() []int {
	p, ok := ordered[v.Param]
	if !ok {
		return nil
	}
	out := make([]int, len(v.List))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(v.List[a].Number, v.List[b].Number) })
	if !p.slowFirst {
		slices.Reverse(out)
	}
	return out
}

// Played are the places of the first n values, from the slowest network to the fastest; nil if they have no order.
func (v *Values) Played(n int) []int {
	return slices.DeleteFunc(v.SlowFirst(), func(i int) bool { return i >= n })
}

// Point is what comes out at one value, as JSON.
type Point[R any] struct {
	Value  string `json:"value"`
	Result R      `json:"result"`
}

// Points are what comes out at the first n values.
func Points[R any](v *Values, n int, result func(i int) R) (all []Point[R]) {
	for i := range n {
		all = append(all, Point[R]{v.List[i].Text, result(i)})
	}
	return all
}

// At is where a value stands on the axis of a plot, which is logarithmic: at its number, or, if some have none above
// 0, at its place in the list.
func (v *Values) At(i int) float64 {
	if v.IsScale() {
		return v.List[i].Number
	}
	return float64(i + 1)
}

// IsScale reports whether all values have an order and are above 0. Otherwise a plot has their names only.
func (v *Values) IsScale() bool {
	return !slices.ContainsFunc(v.List, func(x Value) bool { return !(x.Number > 0) })
}

// Matters is the part of a time below which a difference does not matter.
const Matters = 0.05

// Enough is the place in times, which are from the slowest network to the fastest, from which on none is more than 5 %
// longer than the last.
func Enough(times []time.Duration) int {
	limit := (1 + Matters) * float64(times[len(times)-1])
	enough := len(times) - 1
	for enough > 0 && float64(times[enough-1]) <= limit {
		enough--
	}
	return enough
}

// Call is a call of NCCL at a value: what it is, NCCL's choice (algorithm and protocol, "" if not known), and its time.
type Call struct {
	What, Choice string
	Time         time.Duration
}

// Changes says where NCCL chooses another algorithm or protocol for a call at one value than at the value before it.
// There a faster network can be the slower one. The calls are by value, in the order of the list; equal ones have
// equal What.
func (v *Values) Changes(calls [][]Call) []string {
	var out []string
	for i := 1; i < len(calls); i++ {
		for _, before := range calls[i-1] {
			at := slices.IndexFunc(calls[i], func(c Call) bool { return c.What == before.What })
			if at < 0 || before.Choice == "" || calls[i][at].Choice == "" || calls[i][at].Choice == before.Choice {
				continue
			}
			after := calls[i][at]
			text := fmt.Sprintf("%s: %s at %s %s, %s at %s (%.2f us, %.2f us)", before.What, before.Choice, v.Param,
				v.List[i-1].Text,
				after.Choice, v.List[i].Text, units.Microseconds(before.Time), units.Microseconds(after.Time))
			if v.reversed(i, before.Time, after.Time) {
				text += ": the faster network takes longer"
			}
			out = append(out, text)
		}
	}
	return out
}

// reversed says whether the time at a value and at the one before it are the wrong way round: the time of the faster
// network is more than 5 % longer.
func (v *Values) reversed(i int, before, at time.Duration) bool {
	p, ok := ordered[v.Param]
	a, b := v.List[i-1].Number, v.List[i].Number
	if !ok || a == b {
		return false
	}
	if p.slowFirst == (a < b) { // the value before is the slower network
		before, at = at, before
	}
	return float64(before) > (1+Matters)*float64(at)
}

// Reversals are sentences about values at which something takes more than 5 % longer than on the slower network beside
// them in the list, and then about the value at which it is shortest. What says what takes the times, such as a step;
// there may be fewer times than values.
func (v *Values) Reversals(what string, times []time.Duration) (out []string) {
	for i := 1; i < len(times); i++ {
		if !v.reversed(i, times[i-1], times[i]) {
			continue
		}
		long, short := i-1, i
		if times[i] > times[i-1] {
			long, short = i, i-1
		}
		out = append(out, fmt.Sprintf("%s takes longer at %s %s than at %s, which is slower: %.2f us, %.2f us", what,
			v.Param, v.List[long].Text, v.List[short].Text,
			units.Microseconds(times[long]), units.Microseconds(times[short])))
	}
	if len(out) > 0 {
		best := slices.Index(times, slices.Min(times))
		out = append(out, fmt.Sprintf("%s is shortest at %s %s: %.2f us", what, v.Param, v.List[best].Text,
			units.Microseconds(times[best])))
	}
	return out
}

// mostChanges is how many changes a text names.
const mostChanges = 8

// ChangeLines are the lines of a text about changes: the first of them, and how many more there are.
func ChangeLines(changes []string) (lines []string) {
	for _, c := range changes[:min(len(changes), mostChanges)] {
		lines = append(lines, "NCCL's choice changes: "+c)
	}
	if more := len(changes) - mostChanges; more > 0 {
		lines = append(lines, fmt.Sprintf("NCCL's choice changes %s: see --json", units.Count(more, "more time")))
	}
	return lines
}
