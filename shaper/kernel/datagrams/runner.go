// SPDX-License-Identifier: Apache-2.0

// Package datagrams sends datagrams between the nodes of a fabric on the kernel datapath
// and notes when each came, so that what the links do can be measured from outside. The
// sockets of all nodes are in this process, so that their times are of one clock. It
// needs the rights to enter network namespaces.
package datagrams

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/state"
	"github.com/ddlemu/ddlemu/shaper/verdict"
)

// Runner is a fabric that datagrams are sent on. Not safe for concurrent use.
type Runner struct {
	file   *state.File
	fabric *fabric.Fabric
	plan   *netns.Plan
	part   *state.Participant
	zero   time.Time // where times begin

	before  state.Reason      // what was wrong before anything was sent
	start   []state.HopStatus // what had been carried
	sent    map[int]uint64    // datagrams, by link
	traffic state.JobStatus   // what the shaper had recorded before the last Send
	tag     uint32            // of the next stream
}

// Open makes a Runner of the fabric in file, of which p is the plan, and tells others that
// the fabric is in use. The caller closes it, before the file.
func Open(file *state.File, f *fabric.Fabric, p *netns.Plan) (*Runner, error) {
	job, err := file.JoinJob(state.VerifyKey)
	if err != nil {
		return nil, err
	}
	part, err := file.Join(job, state.Rank{World: 1})
	if err != nil {
		return nil, err
	}
	w := &Runner{file: file, fabric: f, plan: p, part: part, zero: time.Now(), sent: map[int]uint64{}, tag: uint32(time.Now().UnixNano())}
	w.before, w.start = w.reasons(), file.Hops()
	return w, nil
}

// Close says that the fabric is in use no more.
func (w *Runner) Close() { w.part.Leave() }

// The daemon counts ten times a second. Up to so many packets on a link meanwhile are
// those by which nodes find each other.
const (
	counted = 300 * time.Millisecond
	stray   = 50
)

// Quiet watches the fabric for a moment; the error names a link on which something
// passes.
func (w *Runner) Quiet(ctx context.Context) error {
	before := w.file.Hops()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(counted):
	}
	for i, h := range w.file.Hops() {
		if n := passed(h, before[i]); w.fabric.Hops[i].Kind == fabric.Link && n > stray {
			return fmt.Errorf("%d packets passed %s in %v: end what sends on the fabric, or bring up another one to verify", n, w.fabric.HopName(i), counted)
		}
	}
	w.start = w.file.Hops()
	return nil
}

// passed is how many packets a hop has taken or dropped since before.
func passed(now, before state.HopStatus) uint64 {
	return now.Counters.Segments + now.Counters.Drops - before.Counters.Segments - before.Counters.Drops
}

// Hops is what is in force on the fabric's hops and what they have carried.
func (w *Runner) Hops() []state.HopStatus { return w.file.Hops() }

// reasons are those of the shaper, which judges all traffic, for INVALID.
func (w *Runner) reasons() state.Reason {
	var r state.Reason
	for _, j := range w.file.JobsOf(state.TrafficKey) {
		r |= j.Status().Reasons
	}
	return r
}

// Words are the shaper's own reasons not to be believed, and packets on the links that
// were not sent from here.
func (w *Runner) Words() []string {
	now := w.reasons()
	words := (now&^w.before | now&state.BelowFloor).Words()
	if _, ok := w.file.Followed(); !ok {
		words = append(words, "a change of the links could not be put into force: see the fabric's events")
	}
	time.Sleep(counted) // until the daemon has counted all
	var links []string
	for i, h := range w.file.Hops() {
		sent := w.sent[i]
		if w.fabric.Hops[i].Kind == fabric.Link && passed(h, w.start[i]) > sent+sent/100+stray {
			links = append(links, w.fabric.HopName(i))
		}
	}
	if len(links) > 0 {
		words = append(words, "other programs sent on the fabric while it was measured: "+strings.Join(links, ", "))
	}
	return words
}

// Late is what the shaper's own verdict has against the packets of the last Send, "" if
// nothing: the same as on a job that sends as much. Some shapers record no lateness.
func (w *Runner) Late() string {
	for _, j := range w.file.JobsOf(state.TrafficKey) {
		s := j.Status()
		s.Since(&w.traffic)
		s.Reasons = 0 // which Words tells
		if v := verdict.Judge(verdict.NewInput(w.file, w.fabric, s)); len(v.Reasons) > 0 {
			return v.Reasons[0]
		}
	}
	return ""
}

// Others are the ranks on the fabric besides this Runner.
func (w *Runner) Others() int {
	return len(slices.DeleteFunc(w.file.Ranks(), func(p state.ParticipantStatus) bool { return !p.Alive || p.Slot == w.part.Slot() }))
}
