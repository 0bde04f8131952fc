// SPDX-License-Identifier: Apache-2.0

// Package sweep has the values of a parameter of all links, and what was calculated or played at each.
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
