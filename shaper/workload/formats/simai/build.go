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

// The streams: a rank waits for calls on blocking at once, and for calls on overlapped at the end of the step.
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
	sign     string // that the sizes are SimAI's; "" if they are ASTRA-sim's
	ops      []workload.Op
	calc     int   // id of the last computation
	pending  []int // what the next computation waits for
	grads    []int // what the end of the step waits for
	lastID   int
	played   int // layers, forward
	used     map[perrank.Group]bool
	computes bool
	singles  int // communications in a group of one rank
	empty    int // communications of no bytes
	nameless int // sizes without a communication
	unissued int // communications that the policy does not issue
	gathers  int // AllGathers
	err      error
}

func (b *builder) add(o workload.Op) int {
	if b.err == nil {
		b.err = b.options.Limit.Check(b.lastID + 1)
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
	switch {
	case f == workload.AllGather && b.sign == "":
		b.gathers++
	case f.Shares(2) > 1:
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

// play plays one step.
func (b *builder) play() {
	// three computations and three calls of a layer
	b.ops = make([]workload.Op, 0, b.options.Limit.Room(6*len(b.layers)+2))
	switch {
	case b.name == micro:
		for i := range b.layers {
			l := &b.layers[i]
			b.unused(l.forward, l.input)
			b.communicate(l.name, l.own, perrank.Everyone, blocking)
		}
	case b.name == dlrm, b.name == dlrmOverlap:
		b.dlrm()
	default:
		b.step()
	}
	b.ops = append(b.ops, workload.Op{Kind: workload.Step})
}

// unused counts communications that are not issued.
func (b *builder) unused(all ...work) {
	for _, w := range all {
		switch none := w.comm == "NONE" || w.comm == ""; {
		case none && w.bytes > 0:
			b.nameless++
		case none:
		case w.bytes == 0:
			b.empty++
		default:
			b.unissued++
		}
	}
}

// step plays the layers forward and backward.
func (b *builder) step() {
	for i := 0; i < len(b.layers) && b.err == nil; i++ {
		b.forward(i)
	}
	var updates int64
	for i := len(b.layers) - 1; i >= 0 && b.err == nil; i-- {
		l := &b.layers[i]
		if b.of(l).forwardOnly || b.inference {
			b.unused(l.input, l.own)
			continue
		}
		if b.initiates[i] {
			from := i
			for from > 0 && !b.checkpoints[from] {
				from--
			}
			for again := from; again < i && b.err == nil; again++ {
				b.forward(again)
			}
		}
		if b.policy.weightsFirst {
			b.weights(l)
			if i > 0 {
				b.compute(l.name+" input gradients", l.input.nanos)
			}
			b.unused(l.input)
		} else {
			b.inputs(i)
		}
		updates = min(updates+l.update, workload.MaxNanos+1) // which no computation may take
	}
	b.pending = append(b.pending, b.grads...)
	b.compute("update", updates)
}

func (b *builder) forward(i int) {
	if b.played++; b.err == nil { // checkpoints repeat layers, also layers without an operation
		b.err = b.options.Limit.Check(b.played)
	}
	l := &b.layers[i]
	p := b.of(l)
	b.compute(l.name, l.forward.nanos)
	if !p.forward {
		b.unused(l.forward)
		return
	}
	b.wait(b.communicate(l.name, l.forward, p.inner, blocking))
}

// inputs plays the input gradients of a layer, then its weight gradients.
func (b *builder) inputs(i int) {
	l := &b.layers[i]
	p := b.of(l)
	b.compute(l.name+" input gradients", l.input.nanos)
	id := 0
	if p.input && (i > 0 || p.inputOfFirst) {
		id = b.communicate(l.name+" input gradients", l.input, p.inner, blocking)
	} else {
		b.unused(l.input)
	}
	if b.sign != "" { // SimAI waits here
		b.wait(id)
		id = 0
	}
	b.weights(l)
	b.wait(id)
}

// weights plays the weight gradients of a layer.
func (b *builder) weights(l *layer) {
	p := b.of(l)
	b.compute(l.name+" weight gradients", l.own.nanos)
	if !p.own {
		b.unused(l.own)
		return
	}
	if id := b.communicate(l.name+" weight gradients", l.own, p.outer, overlapped); id != 0 {
		b.grads = append(b.grads, id)
	}
}

// dlrm plays a recommendation model: the exchange of the embedding, which is the first layer, overlaps the bottom
// layers, and the exchange of its gradients as well.
func (b *builder) dlrm() {
	first := &b.layers[0]
	exchange := 0
	for i := range b.layers {
		l := &b.layers[i]
		b.compute(l.name, l.forward.nanos)
		if i == 0 {
			exchange = b.communicate(l.name, l.forward, perrank.Everyone, blocking)
		} else {
			b.unused(l.forward, l.input)
		}
		if i == b.lastBottom {
			b.wait(exchange)
		}
	}
	var updates int64
	back := 0
	for i := len(b.layers) - 1; i >= 0; i-- {
		l := &b.layers[i]
		if i == 0 && b.name == dlrm {
			b.wait(back)
		}
		b.weights(l)
		updates = min(updates+l.update, workload.MaxNanos+1) // which no computation may take
		if i > 0 {
			b.compute(l.name+" input gradients", l.input.nanos)
		}
		if i == b.lastBottom+1 {
			back = b.communicate(first.name+" input gradients", first.input, perrank.Everyone, blocking)
		}
	}
	b.wait(back)
	b.pending = append(b.pending, b.grads...)
	b.compute("update", updates)
}

func (b *builder) wait(id int) {
	if id != 0 {
		b.pending = append(b.pending, id)
	}
}

// source says what the file does not.
func (b *builder) source(file string) workload.Source {
	h := b.head
	s := workload.Source{Kind: "simai", File: file, Missing: []string{"the type of the elements"}}
	missing := input.Sentences(&s.Missing)
	missing(!b.computes, "no computation between the calls is known")
	size := "the bytes, which the file does not say,"
	if h.pipelineBytes >= 0 {
		size = fmt.Sprintf("the %d bytes", h.pipelineBytes)
	}
	missing(h.Pipeline > 1, "the pipeline: every stage of %d is taken to compute these layers, without %s that stages "+
		"send each other and without waiting for each other", h.Pipeline, size)
	missing(h.policy.byNetwork || h.name == customized, "which ranks are in a group: ASTRA-sim 1 takes the dimensions of "+
		"its network; all ranks are taken, as Chakra's converter does")
	missing(b.sign == "" && b.computes,
		"the unit of times: ns is taken, a cycle of ASTRA-sim 1 at 1 GHz; Chakra's converter takes them for us")
	s.Notes = b.notes()
	return s
}

// notes say how the file was understood, and count what was left out.
func (b *builder) notes() (notes []string) {
	note := input.Counts(&notes)
	if b.sign != "" {
		notes = append(notes, "sizes are as SimAI and AICB write them ("+b.sign+"): of an AllGather what comes out")
	} else if b.gathers > 0 {
		notes = append(notes, "sizes are as ASTRA-sim writes them: of an AllGather what a rank puts in")
	}
	note(b.singles, "call", "left out, in a group of one rank")
	note(b.empty, "call", "left out, of no bytes")
	note(b.nameless, "size", "left out, the communication is NONE")
	note(b.unissued, "call", "left out, "+b.name+" does not issue it there")
	rest := 0
	for i := range b.layers {
		rest += units.Bit(b.layers[i].rest)
	}
	note(rest, "line", "more columns than are known")
	for _, key := range b.unknown {
		notes = append(notes, key+" in the first line: not understood")
	}
	input.Sentences(&notes)(b.policy.inner == perrank.Tensor,
		"ranks are numbered by tensor (%d), data and expert (%d), then pipeline parallelism", b.Tensor, b.Expert)
	return notes
}
