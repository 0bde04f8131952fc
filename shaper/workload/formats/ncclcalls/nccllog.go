// SPDX-License-Identifier: Apache-2.0

// Package ncclcalls reads the calls of NCCL from its own log, of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL, of
// all ranks in one file or in several.
package ncclcalls

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Read reads logs.
func Read(files []input.File, o input.Options) (*workload.Workload, error) {
	l := newLog()
	for _, f := range files {
		if err := l.read(f, o.Limit); err != nil {
			return nil, err
		}
	}
	if l.repeated > 0 {
		return nil, fmt.Errorf(
			"%s: Ray left out calls (%s with [repeated ...x across cluster]): record with RAY_DEDUP_LOGS=0, or "+
				"with NCCL_DEBUG_FILE",
			files[0].Name, units.Count(l.repeated, "line"))
	}
	switch {
	case l.calls > 0:
	case len(l.unknown) > 0:
		_, err := workload.ParseFunc(slices.Min(slices.Collect(maps.Keys(l.unknown))))
		return nil, fmt.Errorf("%s: %w", files[0].Name, err)
	case l.cut > 0:
		return nil, fmt.Errorf(
			"%s: all %s of calls are cut, or have no host:pid:tid before NCCL INFO, which tells the ranks apart",
			files[0].Name, units.Count(l.cut, "line"))
	default:
		return nil, fmt.Errorf("%s: no call of NCCL: record with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL",
			files[0].Name)
	}
	if err := l.place(files[0].Name, o); err != nil {
		return nil, err
	}
	lists, comms, err := l.operations(files[0].Name)
	if err != nil {
		return nil, err
	}
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: l.ranks, Comms: comms}}
	w.Head.Source = workload.Source{Kind: "nccllog", File: input.Title(files[0].Name, len(files)), Notes: l.notes()}
	for _, text := range l.variables {
		name, _, _ := strings.Cut(text, "=")
		if !slices.Contains(workload.NCCLVariables(), name) {
			continue // it is of the cluster, such as one of an interface
		}
		if err := w.Head.SetNCCL(text); err != nil {
			w.Head.Source.Notes = append(w.Head.Source.Notes, "a variable was left out: "+err.Error())
		}
	}
	missing := input.Sentences(&w.Head.Source.Missing)
	missing(l.timed, "when the data of a call was ready: the time between two calls is a computation, and what waits for "+
		"a call is not known")
	missing(!l.timed, "no computation between the calls is known: they follow each other on their streams")
	missing(l.guessed > 0, "the rank of %s: no line of INIT says it, %s", units.Count(l.guessed, "process"),
		cmp.Or(l.guessedBy, "so they are in the order of the log"))
	missing(l.byCalls, "which communicators are of one rank: those of a thread that have the same calls are taken to be "+
		"of different ranks")
	if len(lists) < l.ranks {
		if err := l.oneForAll(files[0].Name, lists); err != nil {
			return nil, err
		}
		recorded := "one rank was"
		if len(lists) > 1 {
			recorded = fmt.Sprintf("%d of %d ranks were", len(lists), l.ranks)
		}
		missing(true, "only %s recorded: all %d ranks are taken to do the same", recorded, l.ranks)
		w.Ops = lists[0]
		return w, nil
	}
	w.Ops = perrank.Join(lists, comms)
	return w, nil
}

// oneForAll says why the operations of the ranks that were recorded cannot be the operations of all.
func (l *log) oneForAll(file string, lists [][]workload.Op) error {
	if slices.ContainsFunc(lists[0],
		func(o workload.Op) bool { return o.Kind != workload.Coll && o.Kind != workload.Calc }) {
		return fmt.Errorf(
			"%s: the log has calls of one of %d ranks, and with sends and receives the ranks do not do the same: "+
				"give the logs of all ranks, or the whole log if this one was cut", file, l.ranks)
	}
	kept := func(c *caller) []*call {
		return slices.DeleteFunc(slices.Clone(c.calls), func(c *call) bool { return c.left })
	}
	first := kept(l.callers[0])
	if len(first) == 0 {
		return fmt.Errorf(
			"%s: no call is in the logs of all %d ranks that were recorded, of %d: give the whole logs, or the log of "+
				"one rank alone", file, len(l.callers), l.ranks)
	}
	for _, c := range l.callers[1:] {
		if !slices.EqualFunc(first, kept(c), func(a, b *call) bool { return a.op == b.op }) {
			return fmt.Errorf(
				"%s: the log has calls of %d of %d ranks, and those of %s and %s differ: give the logs of all ranks, "+
					"or that of one alone",
				file, len(l.callers), l.ranks, l.callers[0].process, c.process)
		}
	}
	return nil
}

// notes are what was left out.
func (l *log) notes() (notes []string) {
	note := input.Counts(&notes)
	note(l.cut, "line", "left out, cut or mixed with another one")
	note(l.foreign, "line", "not of NCCL")
	note(l.warnings, "line", "a warning of NCCL; see the log")
	for _, name := range slices.Sorted(maps.Keys(l.unknown)) {
		notes = append(notes, fmt.Sprintf("%s of %s: left out, no collective, send or receive",
			units.Count(l.unknown[name], "call"), name))
	}
	note(l.foreignOps, "reduction", "the operator is the program's own; sum was taken")
	return append(notes, l.pairing...)
}

// operations are the operations of each rank, and the communicators.
func (l *log) operations(file string) (lists [][]workload.Op, comms []workload.Comm, err error) {
	var registry perrank.Registry
	names, err := l.name(file, &registry)
	if err != nil {
		return nil, nil, err
	}
	l.order()
	l.shift()
	for _, c := range l.callers {
		b := &builder{streams: map[string]string{}, timed: l.timed, ops: make([]workload.Op, 0, len(c.calls))}
		groups := perrank.GroupedCalls[*call, group]{Add: b.add}
		for _, one := range c.calls {
			if !one.left {
				o := *one.op
				o.Comm = names[one.member]
				groups.Call(one, group{one.opCount, one.member, one.stream}, o)
			}
		}
		groups.End()
		lists = append(lists, b.ops)
	}
	return lists, registry.Comms, nil
}
