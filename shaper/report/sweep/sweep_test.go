// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"bw=10G..800G":                     "10Gbps 25Gbps 40Gbps 50Gbps 100Gbps 200Gbps 400Gbps 800Gbps",
		"bw=12.5GB/s,1Gbps":                "100Gbps 1Gbps",
		"bw=20G..30G":                      "20Gbps 25Gbps 30Gbps",
		"lat=1us..1ms":                     "1us 3us 10us 30us 100us 300us 1ms",
		"lat=5us,2ms":                      "5us 2ms",
		"loss=1e-6..0.5%":                  "1e-6 1e-5 1e-4 0.1% 0.5%",
		"loss=none,0.1%":                   "none 0.1%",
		"queue=lossless,taildrop:1M":       "lossless taildrop:1M",
		"reorder=none;1%,50us":             "none 1%,50us",
		"loss=0.1%;gilbert:0.1%,10%,5%,1%": "0.1% gilbert:0.1%,10%,5%,1%",
	} {
		v, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, value := range v.List {
			got = append(got, value.Text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
	for _, text := range []string{
		"", "bw", "bw=", "bw=10G", "loss=1..2", "bw=10..20", "bw=20G..10G", "bw=unlimited,10G", "lat=0s,1us",
		"lat=-1us,1us",
		"bw=" + strings.Repeat("1G,", 100) + "1G", "color=1,2", "queue=1M..2M", "queue=x,y", "nodes=1,2", "loss=2,3",
	} {
		if v, err := Parse(text); err == nil {
			t.Errorf("%q is read as %+v", text, v)
		}
	}
}

func TestSlowFirst(t *testing.T) {
	for text, want := range map[string][]int{"bw=10G,1G,5G": {1, 2, 0}, "lat=1us,5us,3us": {1, 2, 0},
		"loss=none,1%,0.1%": {1, 2, 0}, "queue=fair,lossless": nil} {
		v, err := Parse(text)
		if err != nil || !slices.Equal(v.SlowFirst(), want) {
			t.Errorf("%s: %v, want %v, %v", text, v.SlowFirst(), want, err)
		}
		if positive := text[0] != 'q' && !strings.Contains(text, "none"); positive != (v.At(0) == v.List[0].Number) ||
			!positive && v.At(1) != 2 {
			t.Errorf("%s stands at %g", text, v.At(0))
		}
	}
}

func TestEnough(t *testing.T) {
	for _, tc := range []struct {
		times []time.Duration
		want  int
	}{{[]time.Duration{900, 120, 104, 100}, 2}, {[]time.Duration{104, 120, 104, 100}, 2},
		{[]time.Duration{900, 800}, 1}, {[]time.Duration{100, 100}, 0}, {[]time.Duration{5}, 0}} {
		if got := enough(tc.times); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.times, got, tc.want)
		}
	}
}

// sweepOf is a sweep of the first values with these calls, or with steps of these times.
func sweepOf(v *Values, calls [][]Call, steps ...time.Duration) *Sweep[int] {
	return New(v, make([]int, max(len(calls), len(steps))), func(int) (p Point) {
		if len(calls) > 0 {
			p.Calls, calls = calls[0], calls[1:]
			return p
		}
		p.Timed, steps = []Call{{What: "a step", Time: steps[0], Exposed: new(float64)}}, steps[1:]
		return p
	})
}

func TestChanges(t *testing.T) {
	v, err := Parse("bw=25G,50G,100G")
	if err != nil {
		t.Fatal(err)
	}
	call := func(choice string, us int) []Call {
		return []Call{{What: "SendRecv of 16 bytes", Time: 1},
			{What: "AllReduce of 1048576 bytes", Choice: choice, Time: time.Duration(us) * time.Microsecond}}
	}
	s := sweepOf(v, [][]Call{call("Ring Simple", 400), call("Ring Simple", 200), call("Ring LL", 500)})
	got := s.Changes()
	want := "AllReduce of 1048576 bytes: Ring Simple at bw 50Gbps, Ring LL at 100Gbps (200.00 us, 500.00 us): the faster network takes longer"
	if len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	if lines := s.Lines(); len(lines) != 1 || lines[0] != "NCCL's choice changes: "+want {
		t.Errorf("%q", lines)
	}
	if got := sweepOf(v, [][]Call{call("Ring Simple", 400), call("Ring LL", 200)}).Changes(); len(got) != 1 ||
		strings.Contains(got[0], "longer") {
		t.Errorf("%q", got)
	}
	many := [2][]Call{}
	for i := range 10 {
		many[0] = append(many[0], Call{What: strconv.Itoa(i), Choice: "Ring"})
		many[1] = append(many[1], Call{What: strconv.Itoa(i), Choice: "Tree"})
	}
	if lines := sweepOf(v, many[:]).Lines(); len(lines) != 9 ||
		lines[8] != "NCCL's choice changes 2 more times: see --json" {
		t.Errorf("%q", lines)
	}
}

func TestReversals(t *testing.T) {
	for text, want := range map[string]string{
		"bw=25G,100G":         "a step takes longer at bw 100Gbps than at 25Gbps, which is slower: 109600.00 us, 78300.00 us; a step is shortest at bw 25Gbps: 78300.00 us",
		"bw=100G,25G":         "",
		"lat=1us,5us":         "",
		"lat=5us,1us":         "a step takes longer at lat 1us than at 5us, which is slower: 109600.00 us, 78300.00 us; a step is shortest at lat 5us: 78300.00 us",
		"loss=1%,0.1%":        "a step takes longer at loss 0.1% than at 1%, which is slower: 109600.00 us, 78300.00 us; a step is shortest at loss 1%: 78300.00 us",
		"queue=fair,lossless": "",
	} {
		v, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		times := []time.Duration{78300 * time.Microsecond, 109600 * time.Microsecond}
		if got := strings.Join(sweepOf(v, nil, times...).Reversals(), "; "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		times[1] = 80 * time.Millisecond
		if got := sweepOf(v, nil, times...).Reversals(); len(got) != 0 {
			t.Errorf("%s: %q for 2 %%", text, got)
		}
	}
}

// A header lists a few values, and sums many up.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"lat=1us,10us": "1us or 10us", "bw=10G..800G": "10Gbps to 800Gbps in 8 values"} {
		v, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.String(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
