// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/needs"
)

func TestRate(t *testing.T) {
	for _, tc := range []struct {
		got, low float64
		wrong    bool
	}{
		{100, 0, false}, {98.1, 0, false}, {101.9, 0, false}, {90, 0.08, false}, {0, 0.98, false}, {102.1, 0, true},
		{math.Inf(1), 0, true}, {math.NaN(), 0, true},
	} {
		got := Rate(tc.got, 100, 0.02)
		if got.Wrong != tc.wrong || !tc.wrong && math.Abs(got.Low-tc.low) > 1e-9 || !got.IsRate {
			t.Errorf("%v of 100: %+v, want low %v and wrong %v", tc.got, got, tc.low, tc.wrong)
		}
	}
}

// Late timers excuse low rates and late packets, never what they cannot cause.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		result            Result
		quiet, some, much judgement // timers are late for 0, 6 and 25 % of the time
	}{
		{Exact("", true), right, right, right},
		{Exact("", false), wrong, wrong, wrong},
		{Rate(1, 1, 0.02), right, setAside, setAside},
		{Rate(0.9, 1, 0.02), wrong, setAside, setAside},
		{Rate(0.8, 1, 0.02), wrong, wrong, setAside},
		{Rate(1.1, 1, 0.02), wrong, wrong, wrong},
		{Rate(10, 1, 0.02), wrong, wrong, wrong},
		{Result{Late: true}, wrong, setAside, setAside},
		{Result{Late: true, Low: 0.05}, wrong, setAside, setAside},
		{Result{Late: true, Wrong: true}, wrong, wrong, wrong},
		{Result{Low: 0.01, Wrong: true}, wrong, wrong, wrong},
	} {
		got := [3]judgement{tc.result.judge(lateness{}), tc.result.judge(lateness{machine: 0.06}),
			tc.result.judge(lateness{machine: 0.25})}
		if got != [3]judgement{tc.quiet, tc.some, tc.much} {
			t.Errorf("%+v: %v, want %v, %v, %v", tc.result, got, tc.quiet, tc.some, tc.much)
		}
	}
	// Other programs excuse the same, but do not make a right rate doubtful.
	busy := lateness{programs: 0.25}
	if Rate(1, 1, 0.02).judge(busy) != right || Rate(0.9, 1, 0.02).judge(busy) != setAside ||
		Rate(1.1, 1, 0.02).judge(busy) != wrong || (Result{Late: true}).judge(busy) != setAside {
		t.Error("a result on a busy machine is judged wrongly")
	}
	// A rate that is 10 % too high does not look right while timers are late for as long as a try is judged.
	for _, tolerance := range []float64{0.02, 0.03, 0.05} {
		if got := Rate(1.1*(1-costs*disturbed), 1, tolerance).judge(lateness{machine: disturbed}); got == right {
			t.Errorf("tolerance %v: a rate that is 10 %% too high is taken for right", tolerance)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, tc := range []struct {
		tally
		want Verdict
	}{
		{tally{3, 3, 0}, Passes}, {tally{5, 3, 2}, Passes}, {tally{6, 3, 3}, Passes}, {tally{90, 3, 0}, Passes},
		{tally{100, 1, 99}, Fails}, {tally{7, 3, 4}, Fails}, {tally{3, 0, 3}, Fails}, {tally{8, 0, 3}, Fails},
		{tally{1, 1, 0}, NotJudged}, {tally{2, 0, 2}, NotJudged}, {tally{40, 0, 0}, NotJudged},
		{tally{40, 0, 4}, NotJudged}, {tally{40, 2, 0}, NotJudged},
	} {
		if got := tc.verdict(); got != tc.want {
			t.Errorf("%+v: %v, want %v", tc.tally, got, tc.want)
		}
	}
}

// A thread of a still higher priority keeps one processor for half of the time.
func TestLateTimers(t *testing.T) {
	needs.Root(t, "a real-time priority")
	stop := Disturb()
	watch, err := watchTimers()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(800 * time.Millisecond)
	got, err := watch.end()
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if want := 0.5 / float64(watch.n); min(got.machine, got.programs) < 0.8*want {
		t.Errorf("timers were late for %+v of the time, want %.3f or more", got, want)
	}
}
