// SPDX-License-Identifier: Apache-2.0

package simai

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// The streams: a rank waits for what is on blocking at once, and for what is on overlapped at the end of the step.
const (
	compute    = "compute"
	blocking   = "nccl0"
	overlapped = "nccl1"
)

// builder makes operations of layers.
type builder struct {
	*head
	options  input.Options
	layers   []layer
	ops      []workload.Op
	calc     int   // id of the last computation
	pending  []int // what the next computation waits for
	grads    []int // what the end of the step waits for
	lastID   int
	used     map[perrank.Group]bool
	computes bool
	singles  int // communications in a group of one rank
	empty    int // communications of no bytes
	nameless int // sizes without a communication
	err      error
}

func (b *builder) add(o workload.Op) int {
	if b.err == nil {
		b.err = b.options.Limit.Check(b.lastID)
	}
	if b.err != nil {
		return 0
	}
	b.lastID++
	o.ID = b.lastID
	b.ops = append(b.ops, o)
	return b.lastID
}

// compute adds a computation.
func (b *builder) compute(name string, nanos int64) {
	if nanos == 0 && len(b.pending) == 0 {
		return
	}
	b.computes = b.computes || nanos > 1
	b.calc = b.add(workload.Op{Kind: workload.Calc, Name: name, Stream: compute, Nanos: nanos, After: b.pending})
	b.pending = nil
}

// communicate adds a collective after the last computation. It returns its id, 0 if there is nothing to move.
func (b *builder) communicate(name string, w work, inner perrank.Group, stream string) int {
	f, g, err := parseComm(w.comm, inner)
	if err != nil {
		b.err = fmt.Errorf("layer %s: %w", name, err)
	}
	size, _ := b.Shape(g)
	switch {
	case b.err != nil || f == "" && w.bytes == 0:
		return 0
	case f == "":
		b.nameless++
		return 0
	case w.bytes == 0:
		b.empty++
		return 0
	}
	if size == 1 {
		b.singles++
		return 0
	}
	b.used[g] = true
	o := workload.Op{Kind: workload.Coll, Name: name, Func: f, Comm: string(g), Stream: stream}
	parts := 1
	if f.Shares(2) > 1 {
		parts = size
	}
	o.Count, o.Type = b.options.Elements(w.bytes, parts)
	if b.calc != 0 {
		o.After = append(o.After, b.calc)
	}
	o.After = append(o.After, b.pending...)
	return b.add(o)
}

// parseComm reads a name such as ALLGATHER_DP_EP. Without an ending, the group is inner.
func parseComm(name string, inner perrank.Group) (workload.Func, perrank.Group, error) {
	g := inner
	for _, ending := range []struct {
		text string
		g    perrank.Group
	}{{"_DP_EP", perrank.DataExpert}, {"_EP", perrank.Expert}} {
		if rest, found := strings.CutSuffix(name, ending.text); found {
			name, g = rest, ending.g
			break
		}
	}
	if name == "NONE" || name == "" {
		return "", g, nil
	}
	f, err := workload.ParseFunc(name)
	return f, g, err
}

// groups are those of forward and input gradients, and of weight gradients.
func (h *head) groups() (inner, outer perrank.Group) {
	switch h.policy {
	case "DATA", "MODEL", "MICRO":
		return perrank.Everyone, perrank.Everyone
	}
	return perrank.Tensor, perrank.Data
}

// micro plays the communications one after the other.
func (b *builder) micro() {
	for _, l := range b.layers {
		b.communicate(l.name, l.own, perrank.Everyone, blocking)
	}
	b.ops = append(b.ops, workload.Op{Kind: workload.Step})
}

// step plays one step.
func (b *builder) step() {
	inner, outer := b.groups()
	for i := range b.layers {
		b.forward(i, inner)
	}
	var updates int64
	for i := len(b.layers) - 1; i >= 0; i-- {
		l := &b.layers[i]
		if b.initiates[i] {
			from := i
			for from > 0 && !b.checkpoints[from] {
				from--
			}
			for again := from; again < i; again++ {
				b.forward(again, inner)
			}
		}
		b.compute(l.name+" input gradients", l.input.nanos)
		b.wait(b.communicate(l.name+" input gradients", l.input, inner, blocking))
		b.compute(l.name+" weight gradients", l.own.nanos)
		if id := b.communicate(l.name+" weight gradients", l.own, outer, overlapped); id != 0 {
			b.grads = append(b.grads, id)
		}
		updates += l.update
	}
	b.pending = append(b.pending, b.grads...)
	b.compute("update", updates)
	b.ops = append(b.ops, workload.Op{Kind: workload.Step})
}

func (b *builder) forward(i int, inner perrank.Group) {
	l := &b.layers[i]
	b.compute(l.name, l.forward.nanos)
	b.wait(b.communicate(l.name, l.forward, inner, blocking))
}

func (b *builder) wait(id int) {
	if id != 0 {
		b.pending = append(b.pending, id)
	}
}

// comms are the communicators of the groups that are used.
func (b *builder) comms() []workload.Comm {
	var out []workload.Comm
	for _, g := range perrank.Groups {
		if b.used[g] {
			out = append(out, b.Comms(g)...)
		}
	}
	return out
}

// source says what the file does not.
func (b *builder) source(file string) workload.Source {
	h := b.head
	s := workload.Source{Kind: "simai", File: file, Missing: []string{"the type of the elements"}}
	if !b.computes {
		s.Missing = append(s.Missing, "no computation between the calls is known")
	}
	if h.Pipeline > 1 {
		s.Missing = append(s.Missing, fmt.Sprintf("the pipeline: every stage of %d is taken to compute these layers, without the %d bytes "+
			"that stages send each other and without waiting for each other", h.Pipeline, h.pipelineBytes))
	}
	if b.singles > 0 {
		s.Notes = append(s.Notes, units.Count(b.singles, "call")+": left out, in a group of one rank")
	}
	if b.empty > 0 {
		s.Notes = append(s.Notes, units.Count(b.empty, "call")+": left out, of no bytes")
	}
	if b.nameless > 0 {
		s.Notes = append(s.Notes, units.Count(b.nameless, "size")+": left out, the communication is NONE")
	}
	if h.policy != "MICRO" {
		s.Notes = append(s.Notes, fmt.Sprintf("ranks are numbered by tensor (%d), data and expert (%d), then pipeline parallelism", h.Tensor, h.Expert))
	}
	return s
}
