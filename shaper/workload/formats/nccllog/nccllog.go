// SPDX-License-Identifier: Apache-2.0

// Package nccllog reads the calls of NCCL from its own log, of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL, of all
// ranks in one file or in several.
package nccllog

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Read reads logs.
func Read(files []input.File, o input.Options) (*workload.Workload, error) {
	l := &log{members: map[handle]*member{}, processes: map[process]*caller{}}
	for _, f := range files {
		if err := l.read(f); err != nil {
			return nil, err
		}
	}
	if l.calls == 0 {
		return nil, fmt.Errorf("%s: no call of NCCL: record with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL", files[0].Name)
	}
	if err := l.place(files[0].Name, o); err != nil {
		return nil, err
	}
	lists, comms, err := l.operations(files[0].Name)
	if err != nil {
		return nil, err
	}
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: l.ranks, Comms: comms}}
	w.Head.Source = workload.Source{Kind: "nccllog", File: filepath.Base(files[0].Name), Notes: l.notes()}
	for _, text := range l.variables {
		name, _, _ := strings.Cut(text, "=")
		if !slices.Contains(workload.NCCLVariables(), name) {
			continue // it is of the cluster, such as one of an interface
		}
		if err := w.Head.SetNCCL(text); err != nil {
			w.Head.Source.Notes = append(w.Head.Source.Notes, "a variable was left out: "+err.Error())
		}
	}
	if l.timed {
		w.Head.Source.Missing = append(w.Head.Source.Missing,
			"when the data of a call was ready: the time between two calls is a computation, and what waits for a call is not known")
	} else {
		w.Head.Source.Missing = append(w.Head.Source.Missing, "no computation between the calls is known: they follow each other on their streams")
	}
	if len(lists) == 1 && l.ranks > 1 {
		if slices.ContainsFunc(lists[0], func(o workload.Op) bool { return o.Kind != workload.Coll && o.Kind != workload.Calc }) {
			return nil, fmt.Errorf("%s: the ranks of a job with sends and receives do not do the same: give the logs of all ranks", files[0].Name)
		}
		w.Head.Source.Missing = append(w.Head.Source.Missing,
			fmt.Sprintf("only one rank was recorded: all %d ranks are taken to do the same", l.ranks))
		w.Ops = lists[0]
		return w, nil
	}
	w.Ops = perrank.Join(lists, comms)
	return w, nil
}

// notes are what was left out.
func (l *log) notes() (notes []string) {
	note := func(n int, what, why string) {
		if n > 0 {
			notes = append(notes, units.Count(n, what)+": "+why)
		}
	}
	note(l.cut, "line", "left out, cut or mixed with another one")
	note(l.foreignOps, "reduction", "the operator is the program's own; sum was taken")
	return notes
}

// place gives each process its rank: that in the largest communicator of all processes.
func (l *log) place(file string, o input.Options) error {
	l.callers = nil
	for _, c := range l.processes {
		if len(c.calls) > 0 {
			l.callers = append(l.callers, c)
		}
	}
	slices.SortFunc(l.callers, func(a, b *caller) int { return cmp.Compare(a.number, b.number) })
	for _, m := range l.members {
		l.ranks = max(l.ranks, m.size)
	}
	for _, c := range l.callers {
		c.rank = -1
		for _, m := range l.members {
			if m.caller == c && m.size == l.ranks && m.rank >= 0 {
				c.rank = m.rank
			}
		}
	}
	if len(l.callers) == 1 && l.ranks > 1 {
		if !o.OneForAll {
			return fmt.Errorf("%s: the log is of one of %d ranks: give those of all", file, l.ranks)
		}
		l.callers[0].rank = max(l.callers[0].rank, 0)
		return nil
	}
	if len(l.callers) != l.ranks {
		return fmt.Errorf("%s: a communicator has %d ranks and the log has calls of %d: give the logs of all ranks, or that of one alone",
			file, l.ranks, len(l.callers))
	}
	l.guessed = slices.ContainsFunc(l.callers, func(c *caller) bool { return c.rank < 0 })
	if l.guessed { // no INIT lines
		for i, c := range l.callers {
			c.rank = i
		}
	}
	slices.SortFunc(l.callers, func(a, b *caller) int { return cmp.Compare(a.rank, b.rank) })
	for i, c := range l.callers {
		if c.rank != i {
			return fmt.Errorf("%s: two processes are rank %d of a communicator of %d: give the log of one job", file, c.rank, l.ranks)
		}
	}
	return nil
}

// operations are those of each rank, and the communicators.
func (l *log) operations(file string) (lists [][]workload.Op, comms []workload.Comm, err error) {
	var registry perrank.Registry
	names, err := l.communicators(file, &registry)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range l.callers {
		b := &builder{streams: map[string]string{}, timed: l.timed}
		for i := range c.calls {
			m := c.calls[i].member
			b.call(&c.calls[i], names[m])
		}
		b.endGroup()
		lists = append(lists, b.ops)
	}
	return lists, registry.Comms, nil
}

// communicators names the communicators and finds their ranks.
func (l *log) communicators(file string, comms *perrank.Registry) (map[*member]string, error) {
	byID := map[string][]*member{}
	var order []string
	for _, c := range l.callers {
		for i := range c.calls {
			m := c.calls[i].member
			id := m.id
			if id == "" || m.size == l.ranks && l.guessed {
				id = fmt.Sprintf("of %d ranks", m.size)
			}
			if !slices.Contains(byID[id], m) {
				if byID[id] == nil {
					order = append(order, id)
				}
				byID[id] = append(byID[id], m)
			}
		}
	}
	names := map[*member]string{}
	for n, id := range order {
		members := byID[id]
		var ranks workload.Ranks
		switch size := members[0].size; {
		case size == l.ranks:
			ranks = perrank.All(l.ranks)
		case size != len(members) || members[0].id == "":
			return nil, fmt.Errorf("%s: which ranks are in a communicator of %d is not known: record all ranks, with "+
				"NCCL_DEBUG_SUBSYS=INIT,COLL", file, size)
		default:
			ranks = make(workload.Ranks, size)
			for _, m := range members {
				if m.rank < 0 || m.rank >= size {
					return nil, fmt.Errorf("%s: communicator %s of %d ranks has a rank %d", file, id, size, m.rank)
				}
				ranks[m.rank] = m.caller.rank
			}
		}
		name := comms.Add(fmt.Sprintf("comm%d", n), ranks)
		for _, m := range members {
			names[m] = name
		}
	}
	return names, nil
}
