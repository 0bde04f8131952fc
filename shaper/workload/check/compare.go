// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// add notes a finding, as long as the list is not full.
func (r *run) add(f Finding) {
	if len(r.findings) < maxFindings {
		slices.Sort(f.Ranks)
		r.findings = append(r.findings, f)
	}
}

// line is the line of a call of a rank.
func (r *run) line(c caller) int { return r.ranks[c.rank].line(c.call) }

func (k *rank) line(call int32) int { return workload.Line(int(k.Calls[call].Op)) }

// signature is what must be equal for all ranks of a collective.
type signature struct {
	fn    workload.Func
	count int64
	kind  string
	redOp string
	root  int
}

func signatureOf(o *workload.Op) signature {
	s := signature{o.Func, o.Count, o.Type, o.RedOp, o.Root}
	if s.redOp == "" && o.Func.Reduces() {
		s.redOp = "sum"
	}
	return s
}

// alike are ranks that call the same.
type alike struct {
	first caller
	ranks workload.Ranks
}

// compare notes ranks that call something else than most ranks of a communicator do.
func (r *run) compare(key collKey, callers []caller) {
	if r.broken[key.comm] {
		return
	}
	want := signatureOf(callers[0].op)
	if !slices.ContainsFunc(callers,
		func(c caller) bool { return c.op != callers[0].op && signatureOf(c.op) != want }) {
		return
	}
	r.broken[key.comm] = true
	var groups []*alike
	bySignature := map[signature]*alike{}
	for _, c := range callers {
		g := bySignature[signatureOf(c.op)]
		if g == nil {
			g = &alike{first: c}
			bySignature[signatureOf(c.op)] = g
			groups = append(groups, g)
		}
		g.ranks = append(g.ranks, int(c.rank))
		if c.rank < g.first.rank {
			g.first = c
		}
	}
	// Most ranks are right; of as many, those with the lowest rank.
	slices.SortFunc(groups, func(a, b *alike) int {
		return cmp.Or(cmp.Compare(len(b.ranks), len(a.ranks)), cmp.Compare(a.first.rank, b.first.rank))
	})
	right := groups[0].first
	slices.Sort(groups[0].ranks)
	for _, g := range groups[1:] {
		r.add(Finding{
			Kind: Mismatch, Line: r.line(g.first), Ranks: g.ranks,
			Text: fmt.Sprintf("%s of communicator %s is %s here, and %s for %s in line %d", nth(key),
				r.ix.Comms[key.comm].Name, describe(g.first.op), describe(right.op), groups[0].ranks.Text(),
				r.line(right)),
		})
	}
}

// compareSizes notes a send and a receive of different sizes.
func (r *run) compareSizes(key pairKey, a, b caller) {
	if a.op.Bytes(1) == b.op.Bytes(1) || r.brokenPairs[key] {
		return
	}
	if a.op.Kind == workload.Send {
		a, b = b, a
	}
	r.brokenPairs[key] = true
	r.add(Finding{
		Kind: Mismatch, Line: r.line(a), Ranks: workload.Ranks{int(a.rank)},
		Text: fmt.Sprintf("%s meets %s of rank %d in line %d: %d and %d bytes",
			describe(a.op), describe(b.op), b.rank, r.line(b), a.op.Bytes(1), b.op.Bytes(1)),
	})
}

// nth names a collective of a communicator.
func nth(key collKey) string { return fmt.Sprintf("collective %d", key.n+1) }
