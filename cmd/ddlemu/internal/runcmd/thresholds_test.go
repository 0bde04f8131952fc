// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// asked parses flags of thresholds.
func asked(t *testing.T, args ...string) (*thresholds, error) {
	t.Helper()
	var o thresholds
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	return &o, nil
}

func TestThresholdFlags(t *testing.T) {
	for flag, want := range map[string]string{
		"--require=model=3%": "", "--require=model=0.5 %": "", "--require=model=0%": "", "--require=busbw=12.5GB/s": "",
		"--require=busbw=100Gbps": "", "--require=time=500us": "",
		"--require=model=3": "is not a percentage", "--require=model=-1%": "is not a percentage",
		"--require=model=%": "is not a percentage", "--require=model=NaN%": "is not a percentage",
		"--require=busbw=12": "has no unit", "--require=busbw=12G": "has no unit", "--require=busbw=12GB": "ambiguous",
		"--require=busbw=unlimited": "no row is that fast",
		"--require=time=0s":         "must be above 0", "--require=time=-1s": "must be above 0", "--require=time=5": "is not a time with its unit",
	} {
		o, err := asked(t, flag)
		if want == "" && (err != nil || !o.any()) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
	if o, err := asked(t); err != nil || o.any() {
		t.Errorf("nothing asked: %+v, %v", o, err)
	}
}

// A row is held to what was asked, out of place and in place, by the figures of the table.
func TestThresholds(t *testing.T) {
	half := func(inPlace bool, d time.Duration, busbw, diff float64) bench.Measurement {
		return bench.Measurement{InPlace: inPlace, Time: d, BusBW: busbw, Known: true, Expected: 100 * time.Microsecond,
			Diff: diff}
	}
	in := half(true, 110*time.Microsecond, 9, 10)
	row := bench.Row{Size: 1 << 20, OutOfPlace: half(false, 102*time.Microsecond, 10, 2), InPlace: &in}
	unknown := bench.Row{Size: 8, OutOfPlace: bench.Measurement{Time: time.Microsecond, BusBW: 100}}
	nothing := bench.Row{Size: 0, OutOfPlace: bench.Measurement{Time: time.Microsecond}}
	const where = "1048576 bytes in place: "
	for _, tc := range []struct {
		args string
		row  bench.Row
		want []string // beginnings
	}{
		{"", row, nil},
		{"--require=model=10%", row, nil},
		{"--require=model=9%", row,
			[]string{"model " + where + "110µs is 10.0 % more than the expected 100µs, --require model=9%"}},
		{"--require=model=1%", row, []string{"model 1048576 bytes out of place: ", "model " + where}},
		{"--require=model=50%", unknown, []string{"model 8 bytes out of place: no time is expected of it"}},
		{"--require=model=50%", nothing, nil},
		{"--require=busbw=9GB/s", row, nil},
		{"--require=busbw=72Gbps", row, nil},
		{"--require=busbw=9.5GB/s", row,
			[]string{"busbw " + where + "the bus bandwidth is 9 GB/s, --require busbw=9.5GB/s"}},
		{"--require=busbw=76Gbps", row,
			[]string{"busbw " + where + "the bus bandwidth is 9 GB/s, --require busbw=9.5GB/s"}},
		{"--require=busbw=1GB/s", nothing, nil},
		{"--require=time=110us", row, nil},
		{"--require=time=109us", row, []string{"time " + where + "it took 110µs, --require time=109µs"}},
		{"--require=time=500ns", nothing, []string{"time 0 bytes"}},
		{"--require=time=109us --require=busbw=9.5GB/s", row, []string{"busbw " + where, "time " + where}},
	} {
		o, err := asked(t, strings.Fields(tc.args)...)
		if err != nil {
			t.Fatal(err)
		}
		got := o.missed(tc.row)
		if len(got) != len(tc.want) {
			t.Errorf("%s: %q, want %q", tc.args, got, tc.want)
			continue
		}
		for i, want := range tc.want {
			if text := got[i].Type + " " + got[i].Text; !strings.HasPrefix(text, want) {
				t.Errorf("%s: %q, want %q", tc.args, text, want)
			}
		}
		err = o.judge([]bench.Row{row, tc.row})
		if tc.want == nil && o.missed(row) == nil && err != nil {
			t.Errorf("%s: %v", tc.args, err)
		}
	}
}

// The error has the number of rows and the first of them, and is exit status 1, not that of INVALID.
func TestThresholdError(t *testing.T) {
	o, err := asked(t, "--require=time=1us")
	if err != nil {
		t.Fatal(err)
	}
	row := func(size int64, d time.Duration) bench.Row {
		return bench.Row{Size: size, OutOfPlace: bench.Measurement{Time: d},
			InPlace: &bench.Measurement{InPlace: true, Time: d}}
	}
	if err := o.judge([]bench.Row{row(8, 1000)}); err != nil {
		t.Error(err)
	}
	err = o.judge([]bench.Row{row(8, 1000), row(16, 2000), row(32, 3000)})
	const want = "2 of 3 rows not as asked for: 16 bytes out of place: it took 2µs, --require time=1µs; and 3 more, which --junit FILE lists"
	var missed *missedError
	if !errors.As(err, &missed) || err.Error() != want || cli.ExitStatus(err) != cli.ExitFailure {
		t.Errorf("%v\nwant %s", err, want)
	}
	if err := o.judge([]bench.Row{{Size: 8, OutOfPlace: bench.Measurement{Time: 2000}}}); strings.Contains(err.Error(),
		"more, which") || !strings.HasPrefix(err.Error(), "1 of 1 row ") {
		t.Error(err)
	}
}

// The output ends with what is not as asked for, as JUnit has it, unless its times say nothing.
func TestThresholdsInJSON(t *testing.T) {
	o, err := asked(t, "--require=time=1us")
	if err != nil {
		t.Fatal(err)
	}
	row := bench.Row{Size: 16, OutOfPlace: bench.Measurement{Time: 2000}}
	for valid, want := range map[bool][]bench.Miss{
		true:  {{Type: "time", Text: "16 bytes out of place: it took 2µs, --require time=1µs"}},
		false: nil,
	} {
		var document bytes.Buffer
		p := o.printer(printer.NewJSON(&document))
		var s bench.Summary
		s.Verdict.Valid = valid
		if err := errors.Join(p.Begin(bench.Header{}), p.Row(row), p.End(s)); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Failures []bench.Miss `json:"failures"`
		}
		if err := json.Unmarshal(document.Bytes(), &got); err != nil || !slices.Equal(got.Failures, want) {
			t.Errorf("valid %v: %+v, %v, want %+v", valid, got.Failures, err, want)
		}
	}
}
