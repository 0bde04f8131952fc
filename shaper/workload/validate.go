// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// LineError is an error of a line of a workload.
type LineError struct {
	File string // "" if the workload is from no file
	Line int    // from 1; the head is line 1
	Err  error
}

func (e *LineError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }

// Line is the line of w.Ops[op] in a file.
func Line(op int) int { return op + 2 }

// Validate returns the first mistake of w as a [*LineError], nil if there is none. What a single rank may not do is a
// mistake; whether the calls of different ranks match is the question of shaper/workload/check.
func (w *Workload) Validate() error {
	_, err := w.Index()
	return err
}

// validate checks what the head says of itself.
func (h *Head) validate() error {
	if h.Format != Format {
		return fmt.Errorf("format %q: this program reads %s", h.Format, Format)
	}
	if h.Ranks < 1 || h.Ranks > MaxRanks {
		return fmt.Errorf("ranks %d: must be 1 to %d", h.Ranks, MaxRanks)
	}
	for i, c := range h.Comms {
		if c.Name == "" {
			return fmt.Errorf("communicator %d of comms has no name", i+1)
		}
		if len(c.Ranks) == 0 {
			return fmt.Errorf("communicator %s has no ranks", c.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.NCCL)) {
		if err := checkNCCLVariable(name, h.NCCL[name]); err != nil {
			return fmt.Errorf("nccl: %w", err)
		}
	}
	return nil
}

// validate checks the fields that need no other line: those that its kind needs and forbids, and their ranges.
func (o *Op) validate() error {
	if err := o.checkFields(); err != nil {
		return err
	}
	switch o.Kind {
	case Calc:
		if o.Nanos < 0 || o.Nanos > MaxNanos {
			return fmt.Errorf("ns %d: must be 0 to %d", o.Nanos, int64(MaxNanos))
		}
		if o.MaxNanos != 0 && o.MaxNanos < o.Nanos || o.MaxNanos > MaxNanos {
			return fmt.Errorf("max_ns %d: must be ns, %d, or more, and %d at most", o.MaxNanos, o.Nanos,
				int64(MaxNanos))
		}
	case Coll:
		return o.validateColl()
	case Send, Recv:
		return o.validateCount()
	case Group:
		return o.validateGroup()
	}
	return nil
}

func (o *Op) validateColl() error {
	if !o.Func.Known() {
		names := make([]string, len(funcs))
		for i, f := range funcs {
			names[i] = string(f)
		}
		return unknown("func", string(o.Func), names)
	}
	switch {
	case o.RedOp != "" && !o.Func.Reduces():
		return fmt.Errorf("%s has no redop: remove it", o.Func)
	case o.RedOp != "" && !slices.Contains(redOps, o.RedOp):
		return unknown("redop", o.RedOp, redOps)
	case o.Root != 0 && !o.Func.Rooted():
		return fmt.Errorf("%s has no root: remove it", o.Func)
	}
	return o.validateCount()
}

func (o *Op) validateCount() error {
	size, err := TypeSize(o.Type)
	if err != nil {
		if o.Type == "" {
			return errors.New("type is missing, such as float32")
		}
		return err
	}
	if o.Count < 0 || o.Count > MaxMessage/size {
		return fmt.Errorf("count %d: must be 0 to %d", o.Count, MaxMessage/size)
	}
	return nil
}

func (o *Op) validateGroup() error {
	if len(o.Ops) == 0 {
		return errors.New("group has no ops")
	}
	for i := range o.Ops {
		part := &o.Ops[i]
		err := part.validate()
		switch {
		case part.Kind != Coll && part.Kind != Send && part.Kind != Recv:
			err = fmt.Errorf("%q in a group: only coll, send and recv may be there", part.Kind)
		case len(part.Ranks) > 0 || part.ID != 0 || part.Stream != "" || len(part.After) > 0:
			err = errors.New("rank, id, stream and after are fields of the group, not of its operations")
		}
		if err != nil {
			return fmt.Errorf("operation %d of the group: %w", i+1, err)
		}
	}
	return nil
}

// kinds are all kinds, with the fields that are only for some of them.
var kinds = map[Kind][]string{
	Calc:  {"id", "stream", "after", "ns", "max_ns"},
	Coll:  {"id", "stream", "after", "comm", "func", "count", "type", "redop", "root"},
	Send:  {"id", "stream", "after", "comm", "count", "type", "peer", "relative"},
	Recv:  {"id", "stream", "after", "comm", "count", "type", "peer", "relative"},
	Group: {"id", "stream", "after", "ops"},
	Wait:  {"after"},
	Step:  {},
}

// checkFields refuses an unknown kind, and fields that the kind does not have.
func (o *Op) checkFields() error {
	has, ok := kinds[o.Kind]
	if !ok {
		if o.Kind == "" {
			return errors.New("op is missing, such as calc or coll")
		}
		return unknown("op", string(o.Kind), []string{"calc", "coll", "send", "recv", "group", "wait", "step"})
	}
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"id", o.ID != 0},
		{"stream", o.Stream != ""},
		{"after", len(o.After) > 0},
		{"ns", o.Nanos != 0},
		{"max_ns", o.MaxNanos != 0},
		{"comm", o.Comm != ""},
		{"func", o.Func != ""},
		{"count", o.Count != 0},
		{"type", o.Type != ""},
		{"redop", o.RedOp != ""},
		{"root", o.Root != 0},
		{"peer", o.Peer != 0},
		{"relative", o.Relative},
		{"ops", len(o.Ops) > 0},
	} {
		if field.set && !slices.Contains(has, field.name) {
			return fmt.Errorf("%s has no %s: remove it", o.Kind, field.name)
		}
	}
	if o.ID < 0 {
		return fmt.Errorf("id %d: must not be negative", o.ID)
	}
	return nil
}
