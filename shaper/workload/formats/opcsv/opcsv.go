// SPDX-License-Identifier: Apache-2.0

// Package opcsv reads lists of collectives, one line op,count,root each, as DeepSpeed's communication tests have them.
// The count is in elements. It is the count of PyTorch's call: of the tensor that a rank gives.
package opcsv

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// Read reads a list. The options must have the number of ranks.
func Read(f input.File, o input.Options) (*workload.Workload, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: o.Ranks, Source: workload.Source{
		Kind: "opcsv", File: filepath.Base(f.Name),
		Missing: []string{
			"no computation between the calls is known: they follow each other",
			"the type of the elements: " + o.ElementType() + " is taken",
		},
	}}}
	lines, rootless := in.Lines(), 0
	for lines.Next() {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' || len(w.Ops) == 0 && strings.HasPrefix(strings.ToLower(text), "op,") {
			continue
		}
		op, err := parse(text, o)
		if err != nil {
			return nil, lines.Errorf("%w", err)
		}
		if op.Root < 0 {
			rootless++
			op.Root = 0
		}
		if err := o.Limit.Add(); err != nil {
			return nil, lines.Errorf("%w", err)
		}
		w.Ops = append(w.Ops, op)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(w.Ops) == 0 {
		return nil, lines.Errorf("no operation op,count,root")
	}
	if o.Ranks < 1 {
		return nil, lines.Errorf("the list does not say how many ranks call: add --ranks N")
	}
	input.Counts(&w.Head.Source.Notes)(rootless, "call", "the root is not said (-1); rank 0 was taken")
	return w, nil
}

// parse reads a line. The root of a call that needs one is -1 if the line does not say it.
func parse(text string, o input.Options) (op workload.Op, err error) {
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return op, fmt.Errorf("%q has %d columns: op,count,root are expected", text, len(parts))
	}
	op = workload.Op{Kind: workload.Coll, Type: o.ElementType()}
	name := strings.TrimSpace(parts[0])
	barrier := strings.EqualFold(name, "barrier")
	if op.Func, err = workload.ParseFunc(name); err != nil && !barrier {
		return op, err
	}
	if op.Count, err = strconv.ParseInt(strings.TrimSpace(parts[1]), 10, 64); err != nil || op.Count < 0 {
		return op, fmt.Errorf("count %q: a number of elements is expected", parts[1])
	}
	root, err := strconv.Atoi(strings.TrimSpace(parts[2]))
	if err != nil || root < -1 || o.Ranks > 0 && root >= o.Ranks {
		return op, fmt.Errorf("root %q: a rank from 0 to %d is expected, or -1 for none", parts[2], max(o.Ranks, 1)-1)
	}
	switch {
	case barrier:
		op.Func, op.Count = workload.AllReduce, 1
	case op.Func == workload.ReduceScatter, op.Func == workload.AllToAll, op.Func == workload.Scatter:
		ranks := int64(max(o.Ranks, 1))
		op.Count = (op.Count-1)/ranks + min(op.Count, 1)
	}
	if op.Func.Rooted() {
		op.Root = root
	}
	return op, nil
}
