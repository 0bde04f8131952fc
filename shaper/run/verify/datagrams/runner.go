// SPDX-License-Identifier: Apache-2.0

// Package datagrams sends UDP datagrams between the nodes of a fabric on the kernel datapath and records when each
// arrives. Package verify compares these times with the link model. The sockets of all nodes are opened by this
// process, so all times are of one clock. The process needs the privilege to enter network namespaces.
package datagrams

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// Runner sends datagrams on one fabric. Not safe for concurrent use.
type Runner struct {
	file        *state.File
	fabric      *fabric.Fabric
	plan        *netns.Plan
	participant *state.Participant
	start       time.Time // zero of all times

	reasonsBefore state.Reason      // the shaper's reasons for INVALID before the first Send
	hopsBefore    []state.HopStatus // before the first Send
	sent          map[int]uint64    // datagrams, by link
	traffic       state.JobStatus   // all traffic before the last Send
	tag           uint32            // of the next stream
}

// Open returns a Runner for the fabric in file, whose plan is p. It joins the fabric as a rank, so that other commands
// see that the fabric is in use. The caller closes the Runner before the file.
func Open(file *state.File, f *fabric.Fabric, p *netns.Plan) (*Runner, error) {
	job, err := file.JoinJob(state.VerifyKey)
	if err != nil {
		return nil, err
	}
	participant, err := file.Join(job, state.Rank{World: 1})
	if err != nil {
		return nil, err
	}
	r := &Runner{file: file, fabric: f, plan: p, participant: participant, start: time.Now(), sent: map[int]uint64{},
		tag: uint32(time.Now().UnixNano())}
	r.reasonsBefore, r.hopsBefore = r.reasons(), file.Hops()
	return r, nil
}

// Close leaves the fabric.
func (r *Runner) Close() { r.participant.Leave() }

const (
	// countDelay is after how long the daemon has counted all packets. It counts ten times a second.
	countDelay = 300 * time.Millisecond
	// maxStray is how many packets of neighbour discovery (ARP) a link may carry.
	maxStray = 50
)

// CheckIdle observes the fabric for a moment. The error names a link on which other programs send.
func (r *Runner) CheckIdle(ctx context.Context) error {
	before := r.file.Hops()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(countDelay):
	}
	for i, h := range r.file.Hops() {
		if n := passed(h, before[i]); r.fabric.Hops[i].Kind == link.Link && n > maxStray {
			return fmt.Errorf(
				"%d packets passed %s in %v: stop the programs that send on the fabric, or bring up another one to "+
					"verify", n, r.fabric.HopName(i), countDelay)
		}
	}
	r.hopsBefore = r.file.Hops()
	return nil
}

// passed returns how many packets have arrived at a hop since before.
func passed(now, before state.HopStatus) uint64 {
	return now.Counters.Segments + now.Counters.Drops - before.Counters.Segments - before.Counters.Drops
}

// Hops returns the parameters and counters of the fabric's hops.
func (r *Runner) Hops() []state.HopStatus { return r.file.Hops() }

// reasons returns why the shaper judges all traffic INVALID.
func (r *Runner) reasons() state.Reason {
	var all state.Reason
	for _, j := range r.file.JobsOf(state.TrafficKey) {
		all |= j.Status().Reasons
	}
	return all
}

// Findings returns why the measurement is not valid: the shaper's reasons, and links with packets of other programs.
func (r *Runner) Findings() []verdict.Finding {
	now := r.reasons()
	found := verdict.FromReasons(now&^r.reasonsBefore | now&state.BelowFloor)
	if _, ok := r.file.Followed(); !ok {
		found = append(found,
			verdict.Finding{Cause: verdict.CauseFabric,
				Text: "a change of the links could not be put into force: see the fabric's events"})
	}
	time.Sleep(countDelay)
	var links []string
	for i, h := range r.file.Hops() {
		sent := r.sent[i]
		if r.fabric.Hops[i].Kind == link.Link && passed(h, r.hopsBefore[i]) > sent+sent/100+maxStray {
			links = append(links, r.fabric.HopName(i))
		}
	}
	if len(links) > 0 {
		found = append(found,
			verdict.Finding{Cause: verdict.CauseFabric,
				Text: "other programs sent on the fabric while it was measured: " + strings.Join(links, ", ")})
	}
	return found
}

// Late returns why the shaper's verdict on the packets of the last Send is INVALID, or "". The verdict is the verdict
// on a job that sends the same packets. Some shapers record no lateness.
func (r *Runner) Late() string {
	read := status.NewReader(r.file, r.fabric).Read()
	for _, j := range r.file.JobsOf(state.TrafficKey) {
		s := j.Status()
		s.Subtract(&r.traffic)
		s.Reasons = 0 // Findings has them
		if v := verdict.Judge(verdict.NewInput(read, s)); len(v.Reasons) > 0 {
			return v.Reasons[0]
		}
	}
	return ""
}

// Others returns the number of other ranks on the fabric.
func (r *Runner) Others() int {
	return len(slices.DeleteFunc(r.file.Ranks(),
		func(p state.ParticipantStatus) bool { return !p.Alive || p.Slot == r.participant.Slot() }))
}
