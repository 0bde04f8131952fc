// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// faults makes the changes of links that the faults of a fabric with a real clock plan. The virtual clock makes its
// changes itself.
type faults struct {
	end, ended chan struct{}
	failed     atomic.Pointer[string] // why a change was not made
}

// startFaults starts to make them; nil if there is none to make.
func (j *Job) startFaults() (*faults, error) {
	planned, err := j.Fabric.PlannedChanges()
	if err != nil || len(planned) == 0 || j.file.Virtual() {
		return nil, err
	}
	x := &faults{end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(x.ended)
		for len(planned) > 0 {
			n := together(planned)
			if !x.waitUntil(j.file, planned[0].At) {
				return
			}
			if err := j.makeFaults(planned[:n]); err != nil {
				text := fmt.Sprintf("the faults at %v and later were not made: %v", planned[0].At, err)
				x.failed.Store(&text)
				return
			}
			planned = planned[n:]
		}
	}()
	return x, nil
}

// judge makes a run INVALID whose faults were not made.
func (x *faults) judge(v *verdict.Verdict) {
	if x == nil {
		return
	}
	if text := x.failed.Load(); text != nil {
		v.Add(verdict.Finding{Cause: verdict.CauseFabric, Text: *text})
	}
}

// stop ends the changes, and waits until none is being made.
func (x *faults) stop() {
	if x != nil {
		close(x.end)
		<-x.ended
	}
}

// together counts the first changes, which are made at the same time.
func together(planned []fabric.PlannedChange) (n int) {
	for n < len(planned) && planned[n].At == planned[0].At {
		n++
	}
	return n
}

// waitUntil waits until a time of the emulated network; it returns false if the job ends before.
func (x *faults) waitUntil(file *state.File, at time.Duration) bool {
	due := file.Fixed().Created + int64(at)*int64(file.Fixed().TimeScale)
	select {
	case <-x.end:
		return false
	case <-time.After(time.Duration(due - file.Now())):
		return true
	}
}

// makeFaults makes changes of the same time.
func (j *Job) makeFaults(planned []fabric.PlannedChange) error {
	specs := map[int]link.Spec{}
	var texts []string
	for _, c := range planned {
		before, _, _ := j.file.SpecOf(c.Hop)
		specs[c.Hop] = c.Spec
		if k := j.Fabric.Hops[c.Hop].Kind; k == link.Link || k == link.Trunk {
			texts = append(texts, j.Fabric.HopName(c.Hop)+": "+
				configs.LinkDifference(fabric.LinkOf(before), fabric.LinkOf(c.Spec)))
		}
	}
	j.faultsMade.Add(int64(len(planned)))
	if err := j.file.Change(specs); err != nil {
		return err
	}
	const shown = 4
	if more := len(texts) - shown; more > 0 {
		texts = append(texts[:shown], fmt.Sprintf("and %d more", more))
	}
	j.file.Event("fault: " + strings.Join(texts, "; "))
	return nil
}

// faultNotes tell of faults that did not begin, because the job ended before.
func (j *Job) faultNotes() (notes []string) {
	now := j.Time()
	for i, x := range j.Fabric.Config.Faults {
		if x.At > now {
			notes = append(notes, fmt.Sprintf("faults[%d], at %v on %s, did not begin: the job ended at %v", i, x.At, x.Match,
				now.Round(time.Microsecond)))
		}
	}
	return notes
}
