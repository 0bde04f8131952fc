// SPDX-License-Identifier: Apache-2.0

package parambasic

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// builder makes the operations of a rank.
type builder struct {
	*job
	rank    int
	groups  map[string]workload.Ranks // by pg_id
	ops     []workload.Op
	lastID  int
	calls   map[string]int // ids of calls by what a wait names
	last    *int64         // time of the entry before
	waited  []int          // calls that the host waited for since
	waiting bool           // the entry before was a wait
	calc    int            // id of the last computation
	batch   []workload.Op  // messages that wait for batch_isend_irecv
}

func (j *job) operations(f input.File, rank int, groups map[string]workload.Ranks) ([]workload.Op, error) {
	b := &builder{job: j, rank: rank, groups: groups, calls: map[string]int{}}
	err := j.each(f, func(e *entry) error {
		if err := b.entry(e); err != nil {
			return err
		}
		return j.options.Limit.Check(b.made + len(b.batch))
	})
	b.endBatch("")
	return b.ops, err
}

// entry takes an entry of the list.
func (b *builder) entry(e *entry) error {
	name := strings.ToLower(e.Comms)
	switch {
	case e.Compute != "":
		b.time(e)
		b.computes++
		return nil
	case name == "":
		b.strange++
		return nil
	case name == "init":
		return nil
	}
	b.time(e)
	switch name {
	case "wait":
		b.endBatch("")
		b.wait(e)
		return nil
	case "batch_isend_irecv":
		b.endBatch(string(e.Req))
		return nil
	}
	return b.call(e, name)
}

// time adds the computation since the entry before. After a wait, its length is not known: the time to the next entry
// has the waiting in it.
func (b *builder) time(e *entry) {
	before, waited := b.last, b.waiting
	b.last, b.waiting = e.Start, false
	if e.Start == nil {
		b.untimed++
		return
	}
	b.timed++
	if before == nil || *e.Start <= *before {
		return
	}
	nanos := *e.Start - *before
	if nanos < 0 || nanos > workload.MaxNanos {
		return
	}
	o := workload.Op{Kind: workload.Calc, Stream: "compute", Nanos: nanos, After: b.waited}
	if waited {
		o.Nanos, o.MaxNanos = 0, nanos
		b.waits++
	}
	b.waited = nil
	b.calc = b.add(o)
}

func (b *builder) add(o workload.Op) int {
	b.lastID++
	o.ID = b.lastID
	b.made += max(len(o.Ops), 1)
	b.ops = append(b.ops, o)
	return b.lastID
}

func (b *builder) wait(e *entry) {
	b.waiting = true
	if id := b.calls[string(e.Req)]; id != 0 {
		b.waited = append(b.waited, id)
		delete(b.calls, string(e.Req))
	}
}

// call takes a collective or a message.
func (b *builder) call(e *entry, name string) error {
	group, err := b.group(e)
	if err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(name, "i"); ok && (rest == "send" || rest == "recv") {
		name = rest
	}
	c := pytorch.Call{Name: name, DType: e.DType, InSplit: e.InSplit, OutSplit: e.OutSplit, Group: group, Peer: -1}
	in, out := int64(-1), int64(-1)
	if e.In != nil {
		in = max(*e.In, 0)
	}
	if e.Out != nil {
		out = max(*e.Out, 0)
	}
	barrier := strings.Contains(name, "barrier")
	if barrier {
		c.DType = "float"
	} else {
		c.SetSizes(in, out)
	}
	if b.dropped(&c) {
		return nil
	}
	place := slices.Index(group.Ranks, b.rank)
	if len(b.files) > 1 && place < 0 {
		return fmt.Errorf("rank %d calls process group %s, of ranks %s", b.rank, group.Name, group.Ranks)
	}
	op, unequal, err := c.Op(group.Size)
	if err != nil {
		b.refusedCalls++
		if b.refused == "" {
			b.refused = err.Error()
		}
		return nil
	}
	if op.Comm, err = b.comm(&group); err != nil {
		return err
	}
	if op.Func.Rooted() {
		b.root(&op, e, &group)
	}
	if op.Kind != workload.Coll {
		return b.message(&op, e, &group)
	}
	if unequal {
		if exchange := c.Exchange(op); exchange != nil && len(b.files) > 1 && valid(exchange, group.Size) {
			op = *exchange
		} else {
			b.unequal++
		}
	}
	b.issue(op, e)
	return nil
}

func valid(group *workload.Op, ranks int) bool {
	return len(group.Ops) > 0 && !slices.ContainsFunc(group.Ops, func(o workload.Op) bool { return o.Peer >= ranks })
}

// dropped tells whether there is nothing to play, and counts it.
func (b *builder) dropped(c *pytorch.Call) bool {
	switch {
	case c.Foreign():
		b.foreign[c.Name]++
	case c.LacksSize():
		b.unsized++
	case c.Moves() && c.Empty():
		b.empty++
	case c.Group.Size == 1:
		b.singles++
	default:
		return c.Empty()
	}
	return true
}

// comm is the communicator of a process group.
func (b *builder) comm(g *pytorch.Group) (string, error) {
	if len(b.files) > 1 {
		return b.comms.Add(g.Name, g.Ranks), nil
	}
	return b.comms.AddAlike(g.Name, g.Ranks, b.world)
}

// root sets the root of a call: the trace has the rank of the job.
func (b *builder) root(op *workload.Op, e *entry, g *pytorch.Group) {
	at := -1
	if e.Root != nil {
		at = slices.Index(g.Ranks, *e.Root)
	}
	if at < 0 {
		b.noRoots++
		at = 0
	}
	op.Root = at
}

// message takes a send or receive.
func (b *builder) message(op *workload.Op, e *entry, g *pytorch.Group) error {
	if len(b.files) == 1 {
		return errors.New("the ranks of a job with sends and receives do not do the same: give the traces of all ranks")
	}
	peer := e.Dst
	if op.Kind == workload.Recv {
		peer = e.Src
	}
	at := -1
	if peer != nil {
		at = slices.Index(g.Ranks, *peer)
	}
	if at < 0 {
		b.noPeers++
		return nil
	}
	op.Peer = at
	if e.Batch {
		b.batch = append(b.batch, *op)
		return nil
	}
	b.issue(*op, e)
	return nil
}

// endBatch adds the messages of a batch as one group.
func (b *builder) endBatch(req string) {
	if len(b.batch) == 0 {
		return
	}
	op := workload.Op{Kind: workload.Group, Ops: b.batch}
	if len(b.batch) == 1 {
		op = b.batch[0]
	}
	b.batch = nil
	b.put(op, req)
}

func (b *builder) issue(op workload.Op, e *entry) {
	b.endBatch("")
	op.Name = e.marker()
	b.put(op, string(e.Req))
}

func (b *builder) put(op workload.Op, req string) {
	for part := range op.Parts() {
		op.Stream = "nccl " + part.Comm // all parts are on one process group
	}
	if b.calc != 0 {
		op.After = []int{b.calc}
	}
	op.After = append(op.After, b.waited...)
	if id := b.add(op); req != "" && req != "null" {
		b.calls[req] = id
	}
}

// marker is the innermost marker, for people.
func (e *entry) marker() string {
	if len(e.Markers) == 0 {
		return ""
	}
	const most = 80
	text := strings.Trim(string(e.Markers[len(e.Markers)-1]), `"`)
	if len(text) > most || strings.ContainsAny(text, "\\\n") {
		return ""
	}
	return text
}

// source says what the traces do not.
func (j *job) source() workload.Source {
	s := workload.Source{Kind: "parambasic", File: input.Title(j.files[0].Name, len(j.files)),
		Missing: []string{"reduction operators: sum is taken"}}
	if len(j.files) == 1 && j.world > 1 {
		s.Missing = append(s.Missing, fmt.Sprintf("only one rank was recorded: all %d ranks are taken to do the same",
			j.world))
	}
	missing := input.Sentences(&s.Missing)
	missing(j.timed == 0, "no computation between the calls is known: they follow each other on their process groups")
	missing(j.timed > 0, "whether the GPU or the host was busy between calls: that time is a computation")
	missing(j.waits > 0,
		"how long the host waited: the computation after %s is between 0 and the time to the next entry",
		units.Count(j.waits, "wait"))
	missing(j.computes > 0, "the time of %s", units.Count(j.computes, "computation"))
	missing(j.noRoots > 0, "the root of %s: the first rank of the group is taken", units.Count(j.noRoots, "call"))
	note := input.Counts(&s.Notes)
	if j.timed > 0 {
		note(j.untimed, "call", "no startTime_ns")
	}
	note(j.singles, "call", "left out, in a group of one rank")
	note(j.empty, "call", "left out, with no element to move")
	note(j.unsized, "call", "left out, the trace does not say what it moved")
	note(j.unequal, "all-to-all", "the parts differ or are not recorded; the mean was taken")
	note(j.noPeers, "message", "left out, the peer is not recorded")
	note(j.refusedCalls, "call", "left out, such as "+j.refused)
	for _, name := range slices.Sorted(maps.Keys(j.foreign)) {
		note(j.foreign[name], "call", fmt.Sprintf("of %q, which is not known: left out", name))
	}
	note(j.strange, "entry", "neither comms nor compute: left out")
	return s
}
