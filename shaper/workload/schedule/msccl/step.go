// SPDX-License-Identifier: Apache-2.0

package msccl

import (
	"encoding/xml"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// stepAttrs are what MSCCL's executor asks of a <step>.
var stepAttrs = []string{"srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"}

// step reads a <step>, or an <op> of newer msccl-tools.
func (r *reader) step(e xml.StartElement, b *schedule.Block) (schedule.Step, error) {
	if r.steps++; r.steps > MaxSteps {
		return schedule.Step{}, fmt.Errorf("more than %d steps", MaxSteps)
	}
	a := attrs{of: e.Name.Local, list: e.Attr}
	s := schedule.Step{Line: r.line}
	name := "s"
	newer := e.Name.Local == "op"
	if newer {
		name, r.newer = "step", true
	}
	number := a.number(name, -1, 0, MaxSteps)
	word := a.text("type", "")
	kind, ok := schedule.ParseKind(word)
	if !ok {
		a.fail("type %q is not known: there are s, r, rcs, rrs, rrc, rrcs, cpy, re and nop", clip(word))
	}
	s.Kind = kind
	s.Count = a.number("cnt", 1, 0, MaxChunks)
	s.DepBlock, s.DepStep = a.optional("depid", MaxBlocks-1), a.optional("deps", MaxSteps)
	s.HasDep = a.flag("hasdep")
	if newer {
		s.Src = a.ref("buf", "off")
		s.Dst = s.Src
		if kind == schedule.CopyStep || kind == schedule.ReduceStep {
			a.fail(
				"type %s: an <op> does not say where the source is: write the file with <step> (msccl-tools' "+
					"old_format)", word)
		}
	} else {
		s.Src, s.Dst = a.ref("srcbuf", "srcoff"), a.ref("dstbuf", "dstoff")
	}
	if err := r.finishAttrs(&a); err != nil {
		return s, err
	}
	if !newer {
		for _, name := range stepAttrs {
			if !a.has(name) {
				r.note("a <step> has no %s: MSCCL's executor refuses such a file", name)
			}
		}
	}
	if s.DepBlock < 0 || s.DepStep < 0 {
		if s.DepBlock >= 0 || s.DepStep >= 0 {
			return s, fmt.Errorf("depid=%d with deps=%d: both name a step, or both are -1", s.DepBlock, s.DepStep)
		}
		s.DepBlock, s.DepStep = schedule.None, schedule.None
	}
	return s, r.checkStep(&s, b, number)
}

// ref reads a chunk. An offset of -1 is allowed where nothing is read: a nop, the source of a receive.
func (a *attrs) ref(buffer, offset string) schedule.Ref {
	var ref schedule.Ref
	switch v := a.text(buffer, "i"); v {
	case "i":
	case "o":
		ref.Buffer = schedule.Output
	case "s":
		ref.Buffer = schedule.Scratch
	default:
		a.fail("%s=%q: must be i, o or s", buffer, clip(v))
	}
	ref.Offset = a.optional(offset, MaxChunks)
	return ref
}

func (r *reader) checkStep(s *schedule.Step, b *schedule.Block, number int) error {
	if number != len(b.Steps) {
		return fmt.Errorf("step %d comes as number %d of its block: steps are numbered from 0, in order", number,
			len(b.Steps))
	}
	if s.Kind == schedule.NopStep {
		return nil
	}
	if s.Kind.Sends() && b.Send < 0 {
		return fmt.Errorf("step %d is %v, but its block sends to nobody", number, s.Kind)
	}
	if s.Kind.Receives() && b.Recv < 0 {
		return fmt.Errorf("step %d is %v, but its block receives from nobody", number, s.Kind)
	}
	if s.Kind.ReadsSource() && s.Src.Offset < 0 {
		return fmt.Errorf("step %d is %v and has no source", number, s.Kind)
	}
	if s.Kind.WritesTarget() && s.Dst.Offset < 0 {
		return fmt.Errorf("step %d is %v and has no destination", number, s.Kind)
	}
	if s.Count == 0 {
		r.note("%s:%d: a step of 0 chunks moves nothing", r.name, r.line)
	}
	return nil
}
