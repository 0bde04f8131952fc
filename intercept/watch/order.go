// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"slices"
	"strings"
)

// Order is by which figure links are sorted. Figures come largest first, names in the fabric's order.
type Order int

// The orders, in the order in which a user goes through them.
const (
	ByRate Order = iota
	ByLoad
	ByQueue
	ByDrops
	ByLate
	ByName
	orders
)

var orderNames = [orders]string{"rate", "load", "queue", "drops", "late", "name"}

func (o Order) String() string { return orderNames[o] }

// Next is the order n places after o; the first one follows the last.
func (o Order) Next(n int) Order { return Order(((int(o)+n)%int(orders) + int(orders)) % int(orders)) }

// Sort sorts links that are in the fabric's order. Equal ones stay in it.
func Sort(hops []HopActivity, by Order, reverse bool) {
	if by != ByName {
		slices.SortStableFunc(hops, func(a, b HopActivity) int { return compare(&b, &a, by) })
	}
	if reverse {
		slices.Reverse(hops)
	}
}

// compare compares a figure of two links, and then their rates and bytes.
func compare(a, b *HopActivity, by Order) int {
	first := 0
	switch by {
	case ByLoad:
		first = cmp.Compare(a.Load, b.Load)
	case ByQueue:
		first = cmp.Compare(valueOf(a.QueueNs), valueOf(b.QueueNs))
	case ByDrops:
		first = cmp.Or(cmp.Compare(a.New.Drops, b.New.Drops), cmp.Compare(a.Drops, b.Drops))
	case ByLate:
		first = cmp.Or(cmp.Compare(valueOf(a.LatePercent), valueOf(b.LatePercent)),
			cmp.Compare(valueOf(a.LateP99Us), valueOf(b.LateP99Us)))
	}
	return cmp.Or(first, cmp.Compare(a.RateBps, b.RateBps), cmp.Compare(a.Bytes, b.Bytes))
}

// valueOf is a figure, -1 if it is not known: below all others.
func valueOf[T int64 | float64](p *T) T {
	if p == nil {
		return -1
	}
	return *p
}

// Shown are the links of v, and the ports that dropped packets between the samples, or with ports all of them, whose
// names have the text. Other figures of ports belong to some link.
func (v *View) Shown(text string, ports bool) []HopActivity {
	var out []HopActivity
	for _, hops := range [][]HopActivity{v.Links, v.Ports} {
		for i := range hops {
			h := &hops[i]
			if strings.Contains(h.Name, text) && (h.NIC == "" || ports || h.New.Drops > 0) {
				out = append(out, *h)
			}
		}
	}
	return out
}
