// SPDX-License-Identifier: Apache-2.0

// Package whatif says how long recorded calls would have taken with something changed.
package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Spec makes the parameters of a hop from what they are.
type Spec func(hop int, s link.Spec) link.Spec

// Change is a difference to the recording.
type Change struct {
	Name    string
	Kind    Kind
	Links   []string       // that it is about, each as a pattern of links: a cable is one, a NIC is one
	Hops    []int          // that it is about
	Spec    Spec           // of these; nil: they stay
	Fabric  *replay.Fabric // another one instead; nil: the recorded one
	Without map[int]bool   // jobs that are left out
}

// apply returns the fabric as it is with the change.
func (c *Change) apply(f *replay.Fabric) *replay.Fabric {
	if c.Fabric != nil {
		return c.Fabric
	}
	if c.Spec == nil {
		return f
	}
	changed := *f.Fabric
	changed.Hops = slices.Clone(f.Hops)
	out := &replay.Fabric{Fabric: &changed, TimeScale: f.TimeScale, Changes: slices.Clone(f.Changes)}
	for _, h := range c.Hops {
		out.Hops[h].Spec = c.Spec(h, out.Hops[h].Spec)
	}
	for i := range out.Changes {
		if slices.Contains(c.Hops, out.Changes[i].Hop) {
			out.Changes[i].Spec = c.Spec(out.Changes[i].Hop, out.Changes[i].Spec)
		}
	}
	return out
}

// Fabrics are the recorded fabric and the one with the change.
func (s *Study) Fabrics(c *Change) [2]*replay.Fabric {
	return [2]*replay.Fabric{s.fabric, c.apply(s.fabric)}
}

// IsRandom says whether a fabric draws jitter, losses or another order of packets at random.
func IsRandom(f *replay.Fabric) bool {
	return slices.ContainsFunc(f.Hops, func(h fabric.Hop) bool {
		return h.Spec.Jitter != (link.Jitter{}) || h.Spec.Loss != (link.Loss{}) || h.Spec.Reorder != (link.Reorder{})
	})
}

// Faster multiplies the rate of links.
func Faster(factor float64) Spec {
	return func(_ int, s link.Spec) link.Spec {
		s.Bandwidth = uint64(float64(s.Bandwidth) * factor)
		return s
	}
}

// Sum is the calls with one name, or all of them.
type Sum struct {
	Name  string
	Calls int
	Ns    int64 // of their times, summed; of all calls: from the first begin to the last end
}

// Sums are the sums of the functions, in the order of their names, after the sum of all calls.
type Sums []Sum

// sumsOf sums the calls that have ended, and that have both a begin and an end when they are played again. Those of a
// warm-up are played, but not summed.
func sumsOf(t *messages.Trace, at func(call int) replay.CallTimes, without map[int]bool) Sums {
	all := Sum{Name: "all"}
	first, last := int64(link.Never), int64(0)
	byName := map[string]*Sum{}
	for i := range t.Calls {
		c := &t.Calls[i]
		x := at(i)
		if c.Warmup || x.End == link.Never || len(c.Messages) == 0 || !t.HasEnded(c) || without[t.Tasks[c.Tasks[0]].Job] {
			continue
		}
		if byName[c.Name] == nil {
			byName[c.Name] = &Sum{Name: c.Name}
		}
		s := byName[c.Name]
		s.Calls++
		s.Ns += x.End - x.Begin
		all.Calls++
		first, last = min(first, x.Begin), max(last, x.End)
	}
	if all.Calls > 0 {
		all.Ns = last - first
	}
	var sums Sums
	for _, s := range byName {
		sums = append(sums, *s)
	}
	slices.SortFunc(sums, func(a, b Sum) int { return cmp.Compare(a.Name, b.Name) })
	return append(Sums{all}, sums...)
}

// Study is recorded calls that can be played with changes.
type Study struct {
	trace  *messages.Trace
	fabric *replay.Fabric
	calls  *replay.Calls
	during *replay.Calls // the same calls, if ranks computed during them; nil: that makes no difference
}

// New finds out how the calls depend on each other.
func New(f *replay.Fabric, t *messages.Trace) *Study {
	s := &Study{trace: t, fabric: f, calls: replay.NewCalls(t, replay.Waiting)}
	if s.calls.LeavesOpen() {
		s.during = replay.NewCalls(t, replay.Computing)
	}
	return s
}

// Calls says how the calls depend on each other.
func (s *Study) Calls() *replay.Calls { return s.calls }

// Result is what a change brings. The recording may leave open whether ranks computed only when a call had ended, or
// during their calls too: then both are known, and what happens lies between them.
type Result struct {
	Before, After Sums // of the same calls, if ranks computed only when a call had ended
	During        Sums // After, if ranks computed during their calls too
	Never         int  // posts that never come
}

// Gain is by how much the time of all calls changes, if ranks computed only when a call had ended: -0.2 is a fifth
// less.
func (r *Result) Gain() float64 { return gain(r.Before[0].Ns, r.After[0].Ns) }

// GainDuring is that if ranks computed during their calls too.
func (r *Result) GainDuring() float64 { return gain(r.Before[0].Ns, r.During[0].Ns) }

// Cautious is the one of both that brings less.
func (r *Result) Cautious() float64 { return max(r.Gain(), r.GainDuring()) }

// IsRange says whether both differ, as people see them, of the sum at a place of Before.
func (r *Result) IsRange(sum int) bool {
	return Percent(gain(r.Before[sum].Ns, r.After[sum].Ns)) != Percent(gain(r.Before[sum].Ns, r.During[sum].Ns))
}

// Text is both for people, or one if they are the same.
func (r *Result) Text() string { return r.TextOf(0) }

// TextOf is Text of the sum at a place of Before.
func (r *Result) TextOf(sum int) string {
	text := Percent(gain(r.Before[sum].Ns, r.After[sum].Ns))
	if r.IsRange(sum) {
		text += " to " + Percent(gain(r.Before[sum].Ns, r.During[sum].Ns))
	}
	return text
}

func gain(before, after int64) float64 {
	if before == 0 {
		return 0
	}
	return float64(after)/float64(before) - 1
}

// Of plays the calls with nothing changed, and with each change.
func (s *Study) Of(changes []Change) ([]*Result, error) {
	for i := range changes {
		f := changes[i].apply(s.fabric)
		if f.NICs() != s.fabric.NICs() || f.Config.NICsPerNode != s.fabric.Config.NICsPerNode {
			return nil, fmt.Errorf("the other fabric has %d NICs, %d per node: the recorded one has %d, %d per node",
				f.NICs(), f.Config.NICsPerNode, s.fabric.NICs(), s.fabric.Config.NICsPerNode)
		}
	}
	played, err := s.playAll(changes)
	if err != nil {
		return nil, err
	}
	results := make([]*Result, len(changes))
	n := 1 + len(changes)
	for i := range changes {
		r := s.result(played[0], played[1+i], changes[i].Without)
		if r.During = r.After; s.during != nil {
			d := s.result(played[n], played[n+1+i], changes[i].Without)
			r.During, r.Never = d.After, max(r.Never, d.Never)
		}
		results[i] = r
	}
	return results, nil
}

// playAll plays the calls with nothing changed, and with each change; then the same if ranks computed during them,
// unless that makes no difference.
func (s *Study) playAll(changes []Change) ([]*replay.Played, error) {
	n := 1 + len(changes)
	all := []*replay.Calls{s.calls}
	if s.during != nil {
		all = append(all, s.during)
	}
	played, errs := make([]*replay.Played, n*len(all)), make([]error, n*len(all))
	var plays sync.WaitGroup
	free := make(chan struct{}, runtime.NumCPU())
	watch := together(s.fabric.Watch, len(played))
	for i := range played {
		free <- struct{}{}
		plays.Go(func() {
			f, without := s.fabric, map[int]bool(nil)
			if change := i % n; change > 0 {
				f, without = changes[change-1].apply(s.fabric), changes[change-1].Without
			}
			own := *f
			own.Watch = watch(i)
			played[i], errs[i] = all[i/n].Play(&own, without)
			<-free
		})
	}
	plays.Wait()
	return played, errors.Join(errs...)
}

// together returns the watch of each of n plays that are made at once: it passes on the part that is done of all.
func together(watch func(part float64) error, n int) func(i int) func(part float64) error {
	var mu sync.Mutex
	parts := make([]float64, n)
	return func(i int) func(part float64) error {
		if watch == nil {
			return nil
		}
		return func(part float64) error {
			mu.Lock()
			defer mu.Unlock()
			parts[i] = part
			sum := 0.0
			for _, p := range parts {
				sum += p
			}
			return watch(sum / float64(n))
		}
	}
}

// result compares the calls that have happened both before and after a change.
func (s *Study) result(before, after *replay.Played, without map[int]bool) *Result {
	in := func(p *replay.Played) func(int) replay.CallTimes {
		return func(call int) replay.CallTimes {
			if before.Calls[call].End == link.Never || after.Calls[call].End == link.Never {
				return replay.CallTimes{Begin: link.Never, End: link.Never}
			}
			return p.Calls[call]
		}
	}
	return &Result{Before: sumsOf(s.trace, in(before), without), After: sumsOf(s.trace, in(after), without),
		Never: after.Never}
}
