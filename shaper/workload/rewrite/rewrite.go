// SPDX-License-Identifier: Apache-2.0

// Package rewrite changes a workload by simple rules: what if gradients were compressed, an all-reduce were done in two
// calls, buckets had another size, or the GPUs computed faster?
package rewrite

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Scale multiplies the counts of a function.
type Scale struct {
	Func   workload.Func // SendRecv for sends and receives
	Factor float64
}

// SendRecv stands for sends and receives in a [Scale]: their two ends keep one size.
const SendRecv workload.Func = "send and recv"

// ParseScale reads a rule such as allreduce=0.01 or sendrecv=0.5.
func ParseScale(text string) (s Scale, err error) {
	name, factor, ok := strings.Cut(text, "=")
	if !ok {
		return s, fmt.Errorf("%q is no rule: write allreduce=0.01", text)
	}
	if name == "sendrecv" {
		s.Func = SendRecv
	} else if s.Func, err = workload.ParseFunc(name); err != nil {
		return s, configs.Unknown("function", name, names())
	}
	s.Factor, err = ParseFactor(factor)
	return s, err
}

// names are the names of functions that can be scaled, as in a workload.
func names() []string {
	all := []string{"sendrecv"}
	for _, f := range workload.Funcs() {
		all = append(all, string(f))
	}
	return all
}

// Replacement replaces calls of a function by two others that compute the same.
type Replacement struct {
	From  workload.Func
	First workload.Func
	Then  workload.Func
}

// replacements are those that exist.
var replacements = []Replacement{
	{workload.AllReduce, workload.ReduceScatter, workload.AllGather},
	{workload.AllReduce, workload.Reduce, workload.Broadcast},
}

func (p Replacement) String() string { return fmt.Sprintf("%s=%s+%s", p.From, p.First, p.Then) }

// ParseReplacement reads a rule such as allreduce=reduce_scatter+all_gather.
func ParseReplacement(text string) (Replacement, error) {
	plain := func(s string) string { return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s)) }
	var all []string
	for _, r := range replacements {
		if plain(text) == plain(r.String()) {
			return r, nil
		}
		all = append(all, r.String())
	}
	return Replacement{}, fmt.Errorf("%q is no rule: there are %s", text, strings.Join(all, " and "))
}

// Compute multiplies the times of computations. The zero value does not.
type Compute struct {
	Factor float64
	Basis  string // of the factor, for a note; "" if the user gave it
}

// ParseFactor reads a factor above 0.
func ParseFactor(text string) (float64, error) {
	factor, err := strconv.ParseFloat(text, 64)
	if err != nil || !(factor > 0 && factor <= maxFactor) {
		return 0, fmt.Errorf("%q is no factor above 0", text)
	}
	return factor, nil
}

// maxFactor is the largest factor.
const maxFactor = 1e6

// apply returns the operations with other times of computation. It is an error if none has a time.
func (c Compute) apply(ops []workload.Op) ([]workload.Op, error) {
	out, found := slices.Clone(ops), false
	times := func(ns int64) int64 {
		found = found || ns > 0
		return int64(min(math.Round(float64(ns)*c.Factor), math.MaxInt64/2)) // Validate refuses times that are too long
	}
	for i := range out {
		out[i].Nanos, out[i].MaxNanos = times(out[i].Nanos), times(out[i].MaxNanos)
	}
	if !found {
		return nil, errors.New("no computation has a time, so no factor changes one")
	}
	return out, nil
}

func (c Compute) note() string {
	text := fmt.Sprintf("rewritten: the time of each computation times %.4g", c.Factor)
	if c.Basis != "" {
		text += ", " + c.Basis
	}
	return text
}

// Rules are applied in this order: buckets, scales, replacements, computation.
type Rules struct {
	// BucketCap puts all-reduces that follow each other together until they have so many bytes or more; 0 for none.
	BucketCap    int64
	Scales       []Scale
	Replacements []Replacement
	Compute      Compute
}

// Empty says whether there is no rule.
func (r *Rules) Empty() bool {
	return r.BucketCap == 0 && len(r.Scales) == 0 && len(r.Replacements) == 0 && r.Compute.Factor == 0
}

// Apply returns a workload with the changes, which its notes name. A rule for calls that the workload does not have is
// an error, as is a line that a rule cannot change.
func (r *Rules) Apply(w *workload.Workload) (*workload.Workload, error) {
	out := *w
	notes := append([]string(nil), w.Head.Source.Notes...)
	if r.BucketCap > 0 {
		if err := mustHave(out.Ops, workload.AllReduce); err != nil {
			return nil, err
		}
		ix, err := out.Index()
		if err != nil {
			return nil, err
		}
		if out.Ops, err = bucket(ix, r.BucketCap); err != nil {
			return nil, err
		}
		notes = append(notes, bucketNote(r.BucketCap, len(w.Ops)-len(out.Ops)))
	}
	for _, s := range r.Scales {
		if err := mustHave(out.Ops, s.Func); err != nil {
			return nil, err
		}
		out.Ops = s.apply(out.Ops)
		notes = append(notes, fmt.Sprintf("rewritten: the count of each %s times %g, rounded, at least 1", s.Func,
			s.Factor))
	}
	for _, p := range r.Replacements {
		if err := mustHave(out.Ops, p.From); err != nil {
			return nil, err
		}
		ix, err := out.Index()
		if err != nil {
			return nil, err
		}
		if out.Ops, err = p.apply(ix); err != nil {
			return nil, err
		}
		notes = append(notes, fmt.Sprintf("rewritten: each %s is done by %s, then %s", p.From, p.First, p.Then))
	}
	if r.Compute.Factor != 0 {
		var err error
		if out.Ops, err = r.Compute.apply(out.Ops); err != nil {
			return nil, err
		}
		notes = append(notes, r.Compute.note())
	}
	out.Head.Source.Notes = notes
	if err := out.Validate(); err != nil {
		return nil, fmt.Errorf("rewritten workload: %w", err)
	}
	return &out, nil
}

// bucketNote says what a cap of buckets did; gone is how many calls are less now.
func bucketNote(limit int64, gone int) string {
	if gone == 0 {
		return fmt.Sprintf("rewritten: no all-reduces could be put together up to %s, so no call is changed",
			units.Volume(uint64(limit)))
	}
	return fmt.Sprintf("rewritten: all-reduces that follow each other are one, up to %s or more",
		units.Volume(uint64(limit)))
}

// mustHave refuses a rule for calls of a function of which there are none.
func mustHave(ops []workload.Op, f workload.Func) error {
	var have []string
	for i := range ops {
		for part := range ops[i].Parts() {
			name := part.Func
			if part.Kind == workload.Send || part.Kind == workload.Recv {
				name = SendRecv
			}
			if name == f {
				return nil
			}
			if name != "" && !slices.Contains(have, string(name)) {
				have = append(have, string(name))
			}
		}
	}
	slices.Sort(have)
	return fmt.Errorf("no call is changed by a rule for %s: the calls are %s", f,
		cmp.Or(strings.Join(have, ", "), "none"))
}

// applies says whether the counts of o change.
func (s Scale) applies(o *workload.Op) bool {
	if s.Func == SendRecv {
		return o.Kind == workload.Send || o.Kind == workload.Recv
	}
	return o.Func == s.Func
}

// apply returns the operations with other counts.
func (s Scale) apply(ops []workload.Op) []workload.Op {
	out := make([]workload.Op, len(ops))
	for i, o := range ops {
		switch {
		case o.Kind == workload.Group:
			o.Ops = s.apply(o.Ops)
		case s.applies(&o) && o.Count > 0:
			o.Count = max(1, int64(math.Round(float64(o.Count)*s.Factor)))
		}
		out[i] = o
	}
	return out
}

// apply returns the operations with each call of From replaced.
func (p Replacement) apply(ix *workload.Index) ([]workload.Op, error) {
	var out []workload.Op
	for i := range ix.Workload.Ops {
		o := ix.Workload.Ops[i]
		if slices.ContainsFunc(o.Ops, func(part workload.Op) bool { return part.Func == p.From }) {
			return nil, &workload.LineError{Line: workload.Line(i), Err: fmt.Errorf(
				"this %s is in a group, whose calls have no order: it cannot be replaced by two", p.From)}
		}
		if o.Func != p.From {
			out = append(out, o)
			continue
		}
		count := o.Count
		if p.First == workload.ReduceScatter {
			ranks, err := sizeOf(ix, &o)
			if err != nil {
				return nil, &workload.LineError{Line: workload.Line(i), Err: err}
			}
			count = (count + ranks - 1) / ranks
		}
		// On one stream the second call comes after the first one.
		first, then := o, o
		first.Func, first.Count, first.ID = p.First, count, 0
		then.Func, then.Count, then.RedOp, then.After = p.Then, count, "", nil
		out = append(out, first, then)
	}
	return out, nil
}

// sizeOf is the number of ranks of the communicator of a call, which must be the same for all ranks that call it.
func sizeOf(ix *workload.Index, o *workload.Op) (int64, error) {
	size := 0
	for _, rank := range ix.RanksOf(o) {
		place, _ := ix.Place(o.Comm, rank)
		n := len(ix.Comms[place.Comm].Ranks)
		if size != 0 && size != n {
			return 0, fmt.Errorf("the communicators with the name %s have %d and %d ranks: write a line for each size",
				o.Comm, size, n)
		}
		size = n
	}
	return int64(size), nil
}
