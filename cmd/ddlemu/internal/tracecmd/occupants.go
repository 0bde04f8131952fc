// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/why"
)

// How much is printed of those whose messages occupied a link.
const (
	mostPairs = 3 // of ranks; if there are more, their senders or their receivers are printed
	mostNamed = 4
)

// occupants says between which ranks the messages went that occupied a link, and for how much of the time.
func occupants(by []why.Share) string {
	if len(by) <= mostPairs {
		return "sent by " + shares(by, func(p why.Pair) string { return p.From + " to " + p.To })
	}
	from, to := func(p why.Pair) string { return p.From }, func(p why.Pair) string { return p.To }
	if senders, receivers := countRanks(by, from), countRanks(by, to); receivers < senders {
		return fmt.Sprintf("sent to %s by %s", shares(by, to), units.Count(senders, "rank"))
	} else {
		return fmt.Sprintf("sent by %s to %s", shares(by, from), units.Count(receivers, "rank"))
	}
}

func countRanks(by []why.Share, rank func(why.Pair) string) int {
	seen := map[string]bool{}
	for _, s := range by {
		seen[rank(s.Pair)] = true
	}
	return len(seen)
}

// shares sums times by a name, and lists the largest with their part of the whole.
func shares(by []why.Share, name func(why.Pair) string) string {
	sums, whole := map[string]int64{}, int64(0)
	for _, s := range by {
		sums[name(s.Pair)] += s.Ns
		whole += s.Ns
	}
	var names []string
	for n := range sums {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	percent := func(ns int64) string { return fmt.Sprintf("(%.0f %%)", 100*float64(ns)/float64(max(whole, 1))) }
	var texts []string
	rest := whole
	for _, n := range names[:min(mostNamed, len(names))] {
		texts = append(texts, n+" "+percent(sums[n]))
		rest -= sums[n]
	}
	if n := len(names) - mostNamed; n > 0 {
		texts = append(texts, fmt.Sprintf("%s %s", units.Count(n, "other"), percent(rest)))
	}
	return strings.Join(texts, ", ")
}
