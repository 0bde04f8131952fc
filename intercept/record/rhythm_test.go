// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// played are the beats of a text of calls, each of which takes 10. A space is a time of 100 without a call.
func played(text string) (out []beat) {
	now := int64(0)
	for _, c := range text {
		if c == ' ' {
			now += 100
			continue
		}
		out = append(out, beat{int(c), now, now + 10})
		now += 10
	}
	return out
}

func TestRhythm(t *testing.T) {
	for _, tc := range []struct {
		name, calls string
		want        rhythm
		note        string // its end
	}{
		{"a job of equal steps", "abc abc abc", rhythm{0, 3, 3}, "of rank 0 3 steps of 3 calls"},
		{"a warm-up and an end", "wxabc abc abc abcz", rhythm{2, 3, 4},
			"4 steps of 3 calls, after a first one of 2 calls, before a last one of 1 call"},
		// The warm-up ends with a call of a step. A step begins behind the pause, so that call is none of it.
		{"a warm-up that ends as a step does", "wxc abc abc abc abc", rhythm{3, 3, 4}, "4 steps of 3 calls, after a first one of 3 calls"},
		{"equal buckets", "aab aab aab aab", rhythm{0, 3, 4}, "of 3 calls"},
		{"the step of one call", "a a a a", rhythm{0, 1, 4}, "4 steps of 1 call"},
		{"no pause tells where a step begins", "xabab", rhythm{1, 2, 2}, "2 steps of 2 calls, after a first one of 1 call"},
		{"few steps beside other calls", "wxyz a bc bc bc pqrst", rhythm{5, 2, 3},
			"3 steps of 2 calls, after a first one of 5 calls, before a last one of 5 calls"},
		{"layers that repeat within a step", "llllo llllo llllo", rhythm{0, 5, 3}, "3 steps of 5 calls"},
	} {
		beats := played(tc.calls)
		got, err := rhythms([][]beat{beats, nil, beats})
		if err != nil || got[0] != tc.want || got[2] != tc.want || got[1] != (rhythm{}) {
			t.Errorf("%s: %+v, %v, want %+v", tc.name, got, err, tc.want)
			continue
		}
		if note := got[0].note(0, len(beats)); !strings.HasSuffix(note, tc.note) {
			t.Errorf("%s: %q, want %q", tc.name, note, tc.note)
		}
	}
	for name, tc := range map[string]struct {
		ranks []string
		want  string
	}{
		"calls that do not repeat":          {[]string{"abcdef"}, "the calls of rank 0 have no rhythm"},
		"a repetition that is a small part": {[]string{"abababcdefghijklmnopqrstuvwx"}, "have no rhythm"},
		"one call":                          {[]string{"a"}, "have no rhythm"},
		"ranks with other steps":            {[]string{"abc abc abc", "de de de de"}, "the calls of rank 0 have a rhythm of 3 steps, those of rank 1 of 4 steps"},
	} {
		var ranks [][]beat
		for _, text := range tc.ranks {
			ranks = append(ranks, played(text))
		}
		if got, err := rhythms(ranks); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Steps that are repeated with anything around them are found: the marks divide all calls, and the steps are equal but
// for where they begin.
func TestRhythmOfRandomSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		call := rapid.IntRange(0, 4)
		step := rapid.SliceOfN(call, 1, 8).Draw(t, "step")
		around := rapid.SliceOfN(rapid.IntRange(10, 40), 0, 5)
		all := around.Draw(t, "before")
		times := rapid.IntRange(max(3, (10+len(step)-1)/len(step)), 20).Draw(t, "times")
		for range times {
			all = append(all, step...)
		}
		all = append(all, around.Draw(t, "after")...)
		var beats []beat
		now := int64(0)
		for _, key := range all {
			now += rapid.Int64Range(0, 50).Draw(t, "pause")
			beats = append(beats, beat{key, now, now + 10})
			now += 10
		}
		got, err := rhythms([][]beat{beats})
		if err != nil {
			t.Fatal(err)
		}
		r := got[0]
		if len(step)%r.period != 0 || r.steps < 2 || r.steps < len(step)/r.period*times-1 {
			t.Fatalf("%+v for %d times %v", r, times, step)
		}
		for i := r.first + r.period; i < r.first+r.steps*r.period; i++ {
			if all[i] != all[i-r.period] {
				t.Fatalf("%+v: call %d is not that of the step before", r, i)
			}
		}
		lasts := r.lasts()
		if !slices.IsSorted(lasts) || lasts[len(lasts)-1] >= len(all) {
			t.Fatalf("%+v: %v", r, lasts)
		}
	})
}

// jobOfSteps has two ranks that call a broadcast, and then three times two all-reduces.
func jobOfSteps() *messages.Trace {
	tr := trace()
	tr.Tasks, tr.Calls = nil, nil
	for rank := range 2 {
		call := func(f string, count uint64, at int64) {
			tr.Tasks = append(tr.Tasks, task(rank, f, count, at, len(tr.Tasks)%7))
		}
		call("Broadcast", 3, 1000)
		for step := range int64(3) {
			call("AllReduce", 8, 10000*(step+1))
			call("AllReduce", 4, 10000*(step+1)+600)
		}
	}
	for i := range 7 {
		tr.Calls = append(tr.Calls, messages.Call{Ended: tr.Tasks[i].Begun + 500})
	}
	return tr
}

// kinds are the operations of a workload by their first letters.
func kinds(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		_, kind, _ := strings.Cut(l, `"op":"`)
		b.WriteString(kind[:2] + " ")
	}
	return strings.TrimSpace(b.String())
}

// With auto, the steps of a job are those that ddlemu_torch.step() marks, or the rhythm of its calls.
func TestAutoSteps(t *testing.T) {
	got := lines(t, jobOfSteps(), Options{Step: Auto, NoWaits: true})
	if want := "co st ca co ca co st ca co ca co st ca co ca co st"; kinds(got[1:]) != want {
		t.Errorf("%s, want %s\n%s", kinds(got[1:]), want, strings.Join(got, "\n"))
	}
	if want := `"notes":["steps are what the ranks call again and again: of rank 0 3 steps of 2 calls, after a first one of 1 call"]`; !strings.Contains(got[0], want) {
		t.Errorf("the head is %s", got[0])
	}
	tr := jobOfSteps()
	for rank := range 2 {
		tr.Ranges = append(tr.Ranges, messages.Range{Owner: rank, Range: ledger.Range{Name: StepRange, Begun: 1, Ended: 21000}})
	}
	got = lines(t, tr, Options{Step: Auto, NoWaits: true})
	if want := "co ca co ca co ca co ca co st ca co ca co"; kinds(got[1:]) != want || strings.Contains(got[0], "again") {
		t.Errorf("%s, want %s\n%s", kinds(got[1:]), want, got[0])
	}
	if _, err := Workload(trace(), Options{Step: Auto}); err != nil {
		t.Errorf("two equal calls: %v", err)
	}
	tr = trace()
	for i := range tr.Tasks {
		tr.Tasks[i].Count += uint64(i % 2)
	}
	if _, err := Workload(tr, Options{Step: Auto}); err == nil || !strings.Contains(err.Error(), "have no rhythm") {
		t.Error(err)
	}
}

// Where kernels are known, the marks are between the same calls.
func TestAutoStepsOfKernels(t *testing.T) {
	tr := jobOfSteps()
	for i := range tr.Tasks {
		x := &tr.Tasks[i]
		tr.Kernels = append(tr.Kernels, messages.Kernel{Owner: x.Owner, Tasks: []int{i}, Launched: x.Begun, Begun: x.Begun,
			Ended: x.Begun + 500})
	}
	got := lines(t, tr, Options{Step: Auto, NoWaits: true})
	calls := strings.NewReplacer("ca ", "", "wa ", "").Replace(kinds(got[1:]))
	if want := "co st co co st co co st co co st"; calls != want {
		t.Errorf("%s, want %s\n%s", calls, want, strings.Join(got, "\n"))
	}
}
