// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const benchOutput = `{"header": {"nccl": "2.22.3", "cuda": "soft", "profile": "eth10", "datapath": "shm",
	"clock": "virtual", "ranks": 2, "nodes": 2, "collective": "all_reduce", "warmup": 5, "iters": 20, "seed": 1,
	"fabric_in_force": {"profile": "eth10", "link": {"bandwidth_bps": 10000000000, "latency_ns": 25000}, "gpu": "none"}},
	"rows": [
	{"size": 8, "type": "float", "redop": "sum", "root": -1, "inplace": false, "time_us": 10, "algo": "Ring",
	 "proto": "LL", "channels": 2},
	{"size": 8, "type": "float", "redop": "sum", "root": -1, "inplace": true, "time_us": 11, "algo": null}],
	"verdict": "VALID"}`

func read(t *testing.T, document string) *Run {
	t.Helper()
	r, err := Read([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// whats are the times as "name=us choice".
func whats(r *Run) (out []string) {
	for _, t := range r.Times {
		out = append(out, strings.TrimRight(fmt.Sprintf("%s=%v %s", t.What, t.US, t.Choice), " "))
	}
	return out
}

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		document, command string
		times             []string
	}{
		{benchOutput, Bench, []string{"8 bytes float sum out of place=10 Ring LL x2", "8 bytes float sum in place=11"}},
		{`{"header": {}, "rows": [{"size": 8, "type": "int8", "redop": "none", "root": 1, "time_us": 1},
			{"size": 8, "type": "int8", "redop": "none", "root": 1, "time_us": 2}]}`, Bench,
			[]string{"8 bytes int8 root 1 out of place=1", "8 bytes int8 root 1 out of place, time 2=2"}},
		{`{"nccl": "2.22.3", "profile": "eth10", "rows": [
			{"size": 8, "type": "float", "redop": "sum", "expected_us": 2.5},
			{"size": 16, "type": "float", "redop": "sum", "expected_us": null}]}`, Expect,
			[]string{"8 bytes float sum=2.5"}},
		{`{"workload": "w", "profile": "eth10", "forecast": false, "steps": [{"time_us": 7}], "verdict": "VALID",
			"calls": [{"func": "all_reduce", "comm": "world", "ranks": 2, "size": 8, "mean_us": 3, "algo": "Tree",
			"proto": "LL"}]}`, Replay, []string{"step 1=7", "all_reduce of world on 2 ranks, 8 bytes=3 Tree LL"}},
		{`{"forecast": true, "steps": [{"time_us": 7}]}`, ExpectWorkload, []string{"step 1=7"}},
	} {
		r := read(t, tc.document)
		if r.Command != tc.command || !slices.Equal(whats(r), tc.times) {
			t.Errorf("%s: got %s %q, want %s %q", tc.document, r.Command, whats(r), tc.command, tc.times)
		}
	}
	for _, bad := range []string{"", "[]", "null", "{}", `{"rows": []}`, `{"header": 1}`, "# ddlemu bench", benchOutput + "x",
		`{"header": {"ranks": "two"}, "rows": []}`} {
		if r, err := Read([]byte(bad)); err == nil || !strings.Contains(err.Error(), "it is not the JSON of one run") {
			t.Errorf("%q: %+v, %v", bad, r, err)
		}
	}
}

func TestUsable(t *testing.T) {
	for _, tc := range []struct{ document, command, want string }{
		{benchOutput, Bench, ""},
		{benchOutput, Expect, "it is the output of ddlemu bench, not of ddlemu expect"},
		{strings.Replace(benchOutput, "VALID", "INVALID", 1), Bench, "its verdict is INVALID"},
		{strings.Replace(benchOutput, "VALID", "incomplete", 1), Bench, "its verdict is incomplete"},
		{`{"header": {}, "rows": [], "verdict": "VALID"}`, Bench, "it has no times"},
	} {
		err := read(t, tc.document).Usable(tc.command)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.command, err, tc.want)
		}
	}
}

// A run with other settings is refused with the names and both values of all of them.
func TestOtherSettings(t *testing.T) {
	was := read(t, benchOutput)
	other := strings.NewReplacer(`"nccl"`, `"in_force": "eth10 with latency 1ms (25us)", "nccl"`, `"ranks": 2`,
		`"ranks": 4`, `"seed": 1`, `"seed": 2`, `25000`, `1000000`).Replace(benchOutput)
	_, err := Compare("old.json", was, read(t, other), 1)
	const want = `it is of other settings: fabric none (now "eth10 with latency 1ms (25us)"), ranks "2" (now "4"), ` +
		`seed "1" (now "2"): `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	// A file of the same name has other links: then they are named one by one.
	_, err = Compare("old.json", was, read(t, strings.Replace(benchOutput, "25000", "50000", 1)), 1)
	if err == nil || !strings.Contains(err.Error(), `settings: latency_ns "25000" (now "50000"): make`) {
		t.Error(err)
	}
	if err := was.Check([]Setting{{Name: Profile, Value: "eth10"}}); err != nil {
		t.Errorf("settings that were not asked for: %v", err)
	}
	// Other software is what is compared, so it is no other setting.
	c, err := Compare("old.json", was, read(t, strings.Replace(benchOutput, "2.22.3", "2.29.7", 1)), 1)
	if err != nil || !slices.Equal(c.Notes, []string{"the baseline is of NCCL 2.22.3, this run of 2.29.7"}) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestCompare(t *testing.T) {
	run := func(times ...Time) *Run { return &Run{Times: times} }
	before := run(Time{"a", 100, "Ring LL"}, Time{"b", 100, ""}, Time{"c", 0, ""}, Time{"d", 1, ""})
	for _, tc := range []struct {
		now       *Run
		tolerance float64
		want      []string
	}{
		{before, 0, []string{"baseline x: of 4 times, 0 slower and 0 faster by more than 0 %"}},
		{run(Time{"a", 101, "Ring LL"}, Time{"b", 99, ""}), 1, []string{
			"baseline x: of 2 times, 0 slower and 0 faster by more than 1 %", "only in the baseline: 2 times, such as c"}},
		{run(Time{"b", 98.999, ""}, Time{"a", 101.001, "Tree LL x2"}, Time{"e", 1, ""}, Time{"d", 1, ""}), 1, []string{
			"baseline x: of 3 times, 1 slower and 1 faster by more than 1 %",
			"slower: a: 101.001 us, 100 us in the baseline (+1.0 %); NCCL chose Tree LL x2, Ring LL in the baseline",
			"faster: b: 98.999 us, 100 us in the baseline (-1.0 %)",
			"not in the baseline: e", "only in the baseline: c"}},
		{run(Time{"c", 1, ""}, Time{"a", 100.002, ""}), 0, []string{
			"baseline x: of 2 times, 2 slower and 0 faster by more than 0 %",
			"slower: c: 1 us, 0 us in the baseline",
			"slower: a: 100.002 us, 100 us in the baseline (+0.0020 %); NCCL chose what is not known, Ring LL in the baseline",
			"only in the baseline: 2 times, such as b"}},
	} {
		c, err := Compare("x", before, tc.now, tc.tolerance)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Lines(); !slices.Equal(got, tc.want) {
			t.Errorf("got  %q\nwant %q", got, tc.want)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
	}
	c, _ := Compare("x", before, run(Time{"b", 1, ""}, Time{"a", 102, ""}), 1)
	if s := c.SlowerAt(1); c.SlowerAt(0) != nil || s == nil || s.What != "a" {
		t.Errorf("%+v", s)
	}
	if _, err := Compare("x", before, run(Time{"z", 1, ""}), 1); err == nil ||
		err.Error() != "none of its times is of this run: it has a, this run has z" {
		t.Error(err)
	}
	var none *Comparison
	if none.Lines() != nil || none.SlowerAt(0) != nil {
		t.Error("a comparison that was not made says something")
	}
}

func TestDefaultTolerance(t *testing.T) {
	for clock, want := range map[string]float64{"virtual": ExactTolerance, "": ExactTolerance, "real": RealTolerance} {
		if got := DefaultTolerance([]Setting{{Name: Profile, Value: "real"}, {Name: Clock, Value: clock}}); got != want {
			t.Errorf("%q: %v, want %v", clock, got, want)
		}
	}
}

// Each time is slower, faster or neither, and what is slower than a run is what that run is faster than.
func TestCompareIsAntisymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := rapid.SliceOfN(rapid.Float64Range(0, 1e9), 1, 20)
		a, b := us.Draw(t, "a"), us.Draw(t, "b")
		one, other := &Run{}, &Run{}
		for i, v := range a {
			one.Times = append(one.Times, Time{What: fmt.Sprint(i), US: v})
		}
		for i, v := range b {
			other.Times = append(other.Times, Time{What: fmt.Sprint(i), US: v})
		}
		forth, err := Compare("x", one, other, 0)
		back, err2 := Compare("x", other, one, 0)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if len(forth.Slower) != len(back.Faster) || len(forth.Faster) != len(back.Slower) ||
			forth.Compared != min(len(a), len(b)) || forth.Compared != back.Compared {
			t.Fatalf("%+v\n%+v", forth, back)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(benchOutput))
	f.Add([]byte(`{"forecast": true, "steps": [{"time_us": 7}], "calls": []}`))
	f.Add([]byte(`{"profile": "x", "rows": [{"expected_us": 1e308}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		r, err := Read(document)
		if err != nil {
			return
		}
		if r.Usable(r.Command) != nil {
			return
		}
		c, err := Compare("x", r, r, 0)
		if err != nil || len(c.Slower)+len(c.Faster) > 0 || c.Compared != len(r.Times) {
			t.Errorf("a run is not like itself: %+v, %v", c, err)
		}
	})
}
