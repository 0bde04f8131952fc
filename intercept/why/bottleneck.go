// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Shares from which on a link is named, and above which links are alike.
const (
	busyBottleneck = 0.5  // of the time: it was busy so long that messages that waited for it filled windows
	slowBottleneck = 0.15 // of the time of all calls: with less, what all links together did says more
	alikeLinks     = 0.98 // of the time of the slowest link: links with so much are as slow
)

// Bottleneck is what took most of the time of all calls: a link, or else a kind of cause. Times are ns of the fabric's
// clock, not divided by the time scale.
type Bottleneck struct {
	Link  string   // "" if it is a kind of cause
	Alike []string // the links within 2 % of Link, itself included, in the order of the fabric; nil if it is the only one
	Kind  Cause    // "" if it is a link
	Cause string   // of a kind with one cause that is about no link: what it says
	Links int      // on how many ports and links a cause of this kind was
	Ns    int64
	All   int64 // of all calls
}

// LinkTime is the time that causes on one link took.
type LinkTime struct {
	Link string
	Ns   int64 // of the fabric's clock, not divided by the time scale
}

// LinkOf is the link that a time counts for, "" for none: of a full window, or a link that a full queue paused, the
// congested one.
func (p *Part) LinkOf() string { return cmp.Or(p.Congested, p.Link) }

// ByLink sums the times of parts by the link that they count for, the longest first.
func ByLink(parts []Total) []LinkTime {
	var out []LinkTime
	at := map[string]int{}
	for i := range parts {
		link := parts[i].LinkOf()
		if link == "" {
			continue
		}
		n, ok := at[link]
		if !ok {
			n = len(out)
			at[link] = n
			out = append(out, LinkTime{Link: link})
		}
		out[n].Ns += parts[i].Ns
	}
	slices.SortFunc(out, func(a, b LinkTime) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Link, b.Link))
	})
	return out
}

// findBottleneck finds what took most of the time of all calls; nil if no call took time. A full window does not count
// beside a link that was busy: messages that wait for the link fill it.
func findBottleneck(functions []Function, isBusy func(link string) bool) *Bottleneck {
	var all []Total
	for i := range functions {
		all = append(all, functions[i].Parts...)
	}
	links, kinds, sum := ByLink(all), kindsOf(all), int64(0)
	for i := range all {
		sum += all[i].Ns
	}
	if len(links) > 0 && isBusy(links[0].Link) {
		kinds = slices.DeleteFunc(kinds, func(b Bottleneck) bool { return b.Kind == Window })
	}
	var best *Bottleneck
	if len(kinds) > 0 {
		best = &kinds[0]
	}
	isSlow := len(links) > 0 && float64(links[0].Ns) >= slowBottleneck*float64(sum)
	if len(links) > 0 && (best == nil || isSlow && (best.Links > 0 || links[0].Ns >= best.Ns)) {
		best = &Bottleneck{Link: links[0].Link, Ns: links[0].Ns, Alike: alike(links)}
	}
	if best != nil {
		best.All = sum
	}
	return best
}

// alike are the links that took nearly as long as the first one; nil if it is alone.
func alike(links []LinkTime) (out []string) {
	for _, l := range links {
		if float64(l.Ns) >= alikeLinks*float64(links[0].Ns) {
			out = append(out, l.Link)
		}
	}
	if len(out) == 1 {
		return nil
	}
	return out
}

// kindsOf sums the times by the kind of the cause, the longest first.
func kindsOf(parts []Total) (out []Bottleneck) {
	at := map[Cause]int{}
	texts, links := map[Cause]map[string]bool{}, map[Cause]map[string]bool{}
	for i := range parts {
		p := &parts[i]
		n, ok := at[p.Cause]
		if !ok {
			n = len(out)
			at[p.Cause], texts[p.Cause], links[p.Cause] = n, map[string]bool{}, map[string]bool{}
			out = append(out, Bottleneck{Kind: p.Cause})
		}
		out[n].Ns += p.Ns
		texts[p.Cause][p.String()] = true
		if link := p.LinkOf(); link != "" {
			links[p.Cause][link] = true
		}
		out[n].Cause, out[n].Links = string(p.Cause), len(links[p.Cause])
		if len(texts[p.Cause]) == 1 {
			out[n].Cause = p.String()
		}
	}
	slices.SortFunc(out, func(a, b Bottleneck) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Kind, b.Kind))
	})
	return slices.DeleteFunc(out, func(b Bottleneck) bool { return b.Ns <= 0 })
}

// namedAlike is how many links that are alike are named.
const namedAlike = 4

// String is the headline: what took most of the time, and how much of it.
func (b *Bottleneck) String() string {
	const of = "of the time of all calls"
	share := Percent(b.Ns, b.All)
	switch {
	case len(b.Alike) > 0:
		names := strings.Join(b.Alike[:min(namedAlike, len(b.Alike))], ", ")
		if len(b.Alike) > namedAlike {
			names += ", ..."
		}
		return fmt.Sprintf("Slowest: %d links alike (%s), with %s %s each", len(b.Alike), names, share, of)
	case b.Link != "":
		return fmt.Sprintf("Slowest: %s, with %s %s", b.Link, share, of)
	case b.Links == 1:
		return fmt.Sprintf("Most of the time: %s on one port or link, with %s %s", b.Kind, share, of)
	case b.Links > 1:
		return fmt.Sprintf("Most of the time: %s on %d ports and links, with %s %s", b.Kind, b.Links, share, of)
	}
	return fmt.Sprintf("Most of the time: %s, with %s %s", b.Cause, share, of)
}

// Percent is a time as a part of another one, as the page of a report shows it.
func Percent(ns, all int64) string {
	share := 100 * float64(ns) / float64(max(all, 1))
	if share != 0 && share < 10 {
		return fmt.Sprintf("%.1f %%", share)
	}
	return fmt.Sprintf("%.0f %%", share)
}

// setBottleneck finds the bottleneck of all calls.
func (r *Report) setBottleneck(x *index) {
	first, last := r.Span(x.Replayed)
	r.Bottleneck = findBottleneck(r.Functions, func(link string) bool {
		busy := int64(0)
		for h := range x.Fabric.Hops {
			if x.Fabric.HopName(h) == link {
				for _, i := range x.OnHop(h) {
					busy += x.HopRecords[i].Dur
				}
			}
		}
		return float64(busy) >= busyBottleneck*float64(last-first)
	})
	if r.Bottleneck == nil || r.Bottleneck.Alike == nil {
		return
	}
	place := map[string]int{}
	for h := range x.Fabric.Hops {
		place[x.Fabric.HopName(h)] = h
	}
	slices.SortFunc(r.Bottleneck.Alike, func(a, b string) int { return cmp.Compare(place[a], place[b]) })
}
