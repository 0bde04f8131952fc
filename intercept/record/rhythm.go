// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Auto as [Options.Step] takes the ranges of StepRange if the job has some. Else it takes for the steps what each rank
// calls again and again.
const Auto = "auto"

// StepRange is the name of the ranges that ddlemu_torch.step() marks.
const StepRange = "ddlemu_torch.step"

// longestStep is the largest number of calls of a step that is looked for: the time grows with it.
const longestStep = 10000

// beat is a call of one rank.
type beat struct {
	key        int // the same for calls of one function, communicator, count, type and peer
	begin, end int64
}

// rhythm is a sequence of calls that a rank repeats.
type rhythm struct {
	first  int // the call with which the first step begins
	period int // calls of a step
	steps  int // that are whole
}

// window are the calls from a to before b, each of which is like the call of period calls before it.
type window struct{ a, b, period int }

// findWindow finds the sequence of calls that is repeated for the largest part of the job, without a call between them.
// Of those that are repeated for at least half as long it is the shortest: two steps are repeated too. A window must be
// half of all calls, or a quarter of them and three steps. It is false if there is none.
func findWindow(beats []beat) (window, bool) {
	n := len(beats)
	var all []window
	longest := 0
	for period := 1; period <= min(n/2, longestStep); period++ {
		w := longestWindow(beats, period)
		length := w.b - w.a
		if 2*length >= n && length >= 2*period {
			return w, true // no other one is twice as long
		}
		if 4*length >= n && length >= 3*period {
			all = append(all, w)
			longest = max(longest, length)
		}
	}
	i := slices.IndexFunc(all, func(w window) bool { return 2*(w.b-w.a) >= longest })
	if i < 0 {
		return window{}, false
	}
	return all[i], true
}

// longestWindow is the longest window of a period, the first one of several.
func longestWindow(beats []beat, period int) window {
	best := window{period: period}
	for a := 0; a+period < len(beats); {
		b := a + period
		for b < len(beats) && beats[b].key == beats[b-period].key {
			b++
		}
		if b-a > best.b-best.a {
			best.a, best.b = a, b
		}
		a = b - period + 1 // a window that begins before it ends at b too
	}
	return best
}

// rhythm divides a window of several ranks into steps. A step begins where the mean time without a call before it is
// the longest: the optimizer and the forward pass. It is the earliest such place if there are several.
func (w window) rhythm(ranks [][]beat) rhythm {
	best, longest := 0, int64(-1)
	for offset := range w.period {
		if w.b-w.a-offset < 2*w.period {
			break
		}
		sum, count := int64(0), int64(0)
		for i := w.a + offset + w.period; i < w.b; i += w.period {
			for _, beats := range ranks {
				sum += max(beats[i].begin-beats[i-1].end, 0)
				count++
			}
		}
		if count > 0 && sum/count > longest {
			best, longest = offset, sum/count
		}
	}
	first := w.a + best
	return rhythm{first, w.period, (w.b - first) / w.period}
}

// lasts are the last calls of the steps, in order: of what comes before the first one, if there is something, and of
// each step. What comes after the last one has no mark.
func (r rhythm) lasts() (out []int) {
	if r.first > 0 {
		out = append(out, r.first-1)
	}
	for step := range r.steps {
		out = append(out, r.first+(step+1)*r.period-1)
	}
	return out
}

// parts is the number of steps with what comes before and after them, of n calls.
func (r rhythm) parts(n int) int {
	out := len(r.lasts())
	if r.first+r.steps*r.period < n {
		out++
	}
	return out
}

// rhythms finds the rhythm of each rank; the rhythm of ranks without calls is the zero value. It is an error if a rank
// has none, or if they have different numbers of steps.
func rhythms(ranks [][]beat) ([]rhythm, error) {
	windows := map[window][]int{} // ranks
	var order []window
	var w window
	var ok bool
	var before []beat
	for rank, beats := range ranks {
		if len(beats) == 0 {
			continue
		}
		if !slices.EqualFunc(beats, before, func(a, b beat) bool { return a.key == b.key }) {
			w, ok = findWindow(beats) // it takes long, and most ranks of a job call the same
			before = beats
		}
		if !ok {
			return nil, fmt.Errorf("the calls of rank %d have no rhythm: mark the steps by NVTX or ddlemu_torch.step()", rank)
		}
		if windows[w] == nil {
			order = append(order, w)
		}
		windows[w] = append(windows[w], rank)
	}
	out := make([]rhythm, len(ranks))
	for _, w := range order {
		var of [][]beat
		for _, rank := range windows[w] {
			of = append(of, ranks[rank])
		}
		for _, rank := range windows[w] {
			out[rank] = w.rhythm(of)
		}
	}
	first := -1
	for rank, beats := range ranks {
		switch {
		case len(beats) == 0:
		case first < 0:
			first = rank
		case out[rank].parts(len(beats)) != out[first].parts(len(ranks[first])):
			return nil, fmt.Errorf("the calls of rank %d have a rhythm of %s, those of rank %d of %s: mark the steps by NVTX "+
				"or ddlemu_torch.step()", first, units.Count(out[first].steps, "step"), rank,
				units.Count(out[rank].steps, "step"))
		}
	}
	return out, nil
}

// note says what was found for a rank of n calls.
func (r rhythm) note(rank, n int) string {
	text := fmt.Sprintf("steps are what the ranks call again and again: of rank %d %s of %s", rank,
		units.Count(r.steps, "step"), units.Count(r.period, "call"))
	if r.first > 0 {
		text += fmt.Sprintf(", after a first one of %s", units.Count(r.first, "call"))
	}
	if rest := n - r.first - r.steps*r.period; rest > 0 {
		text += fmt.Sprintf(", before a last one of %s", units.Count(rest, "call"))
	}
	return text
}

// byRhythm says whether the steps are what the ranks call again and again.
func (r *recorder) byRhythm() bool { return r.o.Step == Auto && !r.hasRange(StepRange) }

// hasRange says whether the job marked ranges of a name.
func (r *recorder) hasRange(name string) bool {
	for i := range r.trace.Ranges {
		if r.trace.Ranges[i].Name == name {
			return true
		}
	}
	return false
}

// keys gives equal calls equal numbers.
type keys map[string]int

// of is the number of a call, or of a group of calls.
func (k keys) of(p *program, tasks []int) int {
	text := fmt.Sprintf("%+v", p.op(tasks))
	if _, known := k[text]; !known {
		k[text] = len(k)
	}
	return k[text]
}

// markRhythm puts a mark after the last call of each step. Calls must be in their order, without marks.
func markRhythm[T any](r *recorder, calls [][]T, beatOf func(*program, keys, T) beat, mark func(T) T) error {
	// An operation is only made to compare it, so its counts are not used.
	p, known := &program{recorder: &recorder{trace: r.trace, comms: r.comms}}, keys{}
	ranks := make([][]beat, len(calls))
	for rank := range calls {
		for _, c := range calls[rank] {
			ranks[rank] = append(ranks[rank], beatOf(p, known, c))
		}
	}
	found, err := rhythms(ranks)
	if err != nil {
		return err
	}
	for rank, of := range found {
		lasts := of.lasts()
		for i := len(lasts) - 1; i >= 0; i-- {
			calls[rank] = slices.Insert(calls[rank], lasts[i]+1, mark(calls[rank][lasts[i]]))
		}
		if len(lasts) > 0 && r.rhythm == "" {
			r.rhythm = of.note(rank, len(ranks[rank]))
		}
	}
	return nil
}
