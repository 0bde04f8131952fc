// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// PlannedChange is new parameters of a hop from a time of the fabric's clock on.
type PlannedChange struct {
	At   time.Duration
	Hop  int
	Spec link.Spec
}

// PlannedChanges are the begins and ends of the configuration's faults on each hop, in the order of their times and
// hops. While several faults are in force on a hop, they change different parameters. f must be as [New] made it. An
// error that the user can correct is a *configs.Error.
func (f *Fabric) PlannedChanges() ([]PlannedChange, error) {
	if len(f.Config.Faults) == 0 {
		return nil, nil
	}
	byHop, err := f.faultsByHop()
	if err != nil {
		return nil, err
	}
	var all []PlannedChange
	for hop, faults := range byHop {
		changes, err := f.hopChanges(hop, faults)
		if err != nil {
			return nil, err
		}
		all = append(all, changes...)
	}
	slices.SortFunc(all, func(a, b PlannedChange) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Hop, b.Hop))
	})
	return all, nil
}

// faultsByHop are the places of the faults that change each hop.
func (f *Fabric) faultsByHop() ([][]int, error) {
	byHop, changes := make([][]int, len(f.Hops)), 0
	for i := range f.Config.Faults {
		hops, err := f.Select(f.Config.Faults[i].Match)
		if err != nil {
			return nil, f.faultError(i, err)
		}
		if changes += 2 * len(hops); changes > link.MaxPlannedChanges {
			return nil, f.faultError(i, fmt.Errorf("with the faults before it, links and ports change more than %d times: give "+
				"fewer faults, or match fewer links", link.MaxPlannedChanges))
		}
		for _, hop := range hops {
			byHop[hop] = append(byHop[hop], i)
		}
	}
	return byHop, nil
}

// hopChanges are the changes of one hop by these faults.
func (f *Fabric) hopChanges(hop int, faults []int) ([]PlannedChange, error) {
	var times []time.Duration
	for _, i := range faults {
		x := &f.Config.Faults[i]
		times = append(times, x.At)
		if x.For > 0 {
			times = append(times, x.End())
		}
	}
	slices.Sort(times)
	var all []PlannedChange
	last := f.Hops[hop].Spec
	for _, at := range slices.Compact(times) {
		spec, err := f.during(hop, faults, at)
		if err != nil {
			return nil, err
		}
		if spec != last {
			all = append(all, PlannedChange{At: at, Hop: hop, Spec: spec})
		}
		last = spec
	}
	return all, nil
}

// during is the spec of a hop from a time on, until the next begin or end of a fault.
func (f *Fabric) during(hop int, faults []int, at time.Duration) (link.Spec, error) {
	h, without := f.Hops[hop], LinkOf(f.Hops[hop].Spec)
	for place, i := range faults {
		x := &f.Config.Faults[i]
		if at < x.At || at >= x.End() {
			continue
		}
		if x.Rate > 0 && without.Bandwidth == 0 {
			return h.Spec, f.faultError(i, configs.Errorf("rate", "%s has no rate that could be lower: give bandwidth",
				f.HopName(hop)))
		}
		p := x.Patch(&without)
		for _, j := range faults[:place] {
			y := &f.Config.Faults[j]
			other := y.Patch(&without)
			if at >= y.At && at < y.End() && p.Overlaps(&other) {
				return h.Spec, f.faultError(i, fmt.Errorf("changes at %v what faults[%d] has changed on %s: let one end "+
					"before the other begins", at, j, f.HopName(hop)))
			}
		}
		var err error
		if h.Spec, err = f.patched(h, p); err != nil {
			return h.Spec, f.faultError(i, err)
		}
	}
	return h.Spec, nil
}

// faultError is an error about a fault.
func (f *Fabric) faultError(i int, err error) error {
	field := fmt.Sprintf("faults[%d]", i)
	if e, ok := errors.AsType[*configs.Error](err); ok {
		if e.Field != "" {
			field += "." + e.Field
		}
		err = e.Err
	}
	return &configs.Error{Where: f.Config.Faults[i].Where, Field: field, Err: err}
}
