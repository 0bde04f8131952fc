// SPDX-License-Identifier: Apache-2.0

package desync

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec"
)

// made is a launch of a rank, as far as ranks are compared.
type made struct {
	rank            int
	title           string // the function of the first call
	tensors         string // what goes into it
	calls           []string
	functions       string
	types, elements string
	in, out         int64 // elements, of a call whose ranks may have different ones
}

func newMade(rank int, d *flightrec.Dump, l *flightrec.Launch) made {
	m := made{rank: rank, title: "coalesced", tensors: "no tensor"}
	var functions, types, elements []string
	for i, e := range l.Entries(d) {
		if i == 0 {
			m.title, m.tensors = e.Func.String(), e.In.String()
			if len(e.In.Sizes) == 0 {
				m.tensors = e.Out.String()
			}
		}
		functions = append(functions, e.Func.String())
		types = append(types, typeOf(e))
		elements = append(elements, elementsOf(e))
		if uneven(e.Func.Name) {
			m.in, m.out = m.in+e.In.Elements(), m.out+e.Out.Elements()
		}
	}
	if len(functions) > 1 {
		m.title = fmt.Sprintf("%s and %d more at once", m.title, len(functions)-1)
	}
	m.functions, m.types, m.elements = strings.Join(functions, ", "), strings.Join(types, ", "),
		strings.Join(elements, ", ")
	m.calls = functions
	return m
}

func typeOf(e *flightrec.Entry) string {
	if t := e.In.Type(); t != "" {
		return t
	}
	return e.Out.Type()
}

// uneven tells whether the ranks of a call may have different numbers of elements.
func uneven(name string) bool {
	return strings.HasPrefix(name, "all_to_all") || strings.HasSuffix(name, "_v") ||
		strings.HasSuffix(name, "_v_single")
}

// elementsOf is the number of elements that all ranks must have alike. Shapes may differ: NCCL does not see them.
func elementsOf(e *flightrec.Entry) string {
	in, out := e.In.Elements(), e.Out.Elements()
	switch {
	case uneven(e.Func.Name), strings.Contains(e.Func.Name, "barrier"):
		return ""
	case e.Func.Name == "gather" || e.Func.Name == "scatter":
		// the root has a list for all ranks, and others have none
		if in > out {
			in, out = out, in
		}
		if in == 0 {
			in = out
		}
		return fmt.Sprint(in)
	case len(e.In.Sizes) == 0:
		return fmt.Sprint(out)
	}
	return fmt.Sprint(in)
}

// differences says which ranks differ from most others, by the first thing in which they do. whole says that all ranks
// of the group are there.
func differences(all []made, whole bool) []Difference {
	for _, by := range []struct {
		what string
		of   func(m *made) string
	}{
		{"number of calls", func(m *made) string { return fmt.Sprint(len(m.calls)) }},
		{"function", func(m *made) string { return m.functions }},
		{"type", func(m *made) string { return m.types }},
		{"elements", func(m *made) string { return m.elements }},
	} {
		var found []Difference
		usual := most(all, by.of)
		for i := range all {
			if has := by.of(&all[i]); has != usual {
				found = append(found, Difference{Rank: all[i].rank, What: by.what, Has: has, OthersHas: usual})
			}
		}
		if found != nil {
			return found
		}
	}
	var in, out int64
	for i := range all {
		in, out = in+all[i].in, out+all[i].out
	}
	if whole && in != out {
		return []Difference{{Rank: -1, What: "elements of all ranks", Has: fmt.Sprintf("%d go in", in),
			OthersHas: fmt.Sprintf("%d come out", out)}}
	}
	return []Difference{}
}

// most is the value that most have, of several the one that a lower rank has.
func most(all []made, of func(m *made) string) string {
	count := map[string]int{}
	var order []string
	for i := range all {
		v := of(&all[i])
		if count[v]++; count[v] == 1 {
			order = append(order, v)
		}
	}
	if len(order) == 0 {
		return ""
	}
	return slices.MaxFunc(order, func(a, b string) int { return count[a] - count[b] })
}
