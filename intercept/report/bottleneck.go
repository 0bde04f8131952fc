// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"

	"github.com/ddlemu/ddlemu/intercept/why"
)

// Shares above which a link is named.
const (
	busyBottleneck = 0.5  // of the time: it was busy so long that messages that waited for it filled windows
	slowBottleneck = 0.15 // of the time of all calls: with less, what all links together did says more
)

// bottleneck finds what took most of the time of all calls: one link, or else one kind of cause. A full window does not
// count beside a link that was busy: messages that wait for the link fill it.
func (m *maker) bottleneck() *Bottleneck {
	all := int64(0)
	links, kinds := map[string]*Bottleneck{}, map[string]*Bottleneck{}
	named := map[[2]string]bool{}
	for _, f := range m.data.Functions {
		for _, p := range f.Parts {
			c := m.data.Causes[p.Cause]
			all += p.Time
			if kinds[c.Kind] == nil {
				kinds[c.Kind] = &Bottleneck{Kind: c.Kind}
			}
			kinds[c.Kind].Time += p.Time
			if c.Link == "" {
				continue
			}
			if links[c.Link] == nil {
				links[c.Link] = &Bottleneck{Link: c.Link}
			}
			links[c.Link].Time += p.Time
			if key := [2]string{c.Kind, c.Link}; !named[key] {
				named[key] = true
				kinds[c.Kind].Links++
			}
		}
	}
	link := longest(links)
	if link != nil && m.wasBusy(link.Link) {
		delete(kinds, string(why.Window))
	}
	best := longest(kinds)
	isSlow := link != nil && float64(link.Time) >= slowBottleneck*float64(all)
	if best == nil || isSlow && (best.Links > 0 || link.Time >= best.Time) {
		best = link
	}
	if best != nil {
		best.All = all
	}
	return best
}

// longest is what took most time, always the same; nil if nothing did.
func longest(all map[string]*Bottleneck) (best *Bottleneck) {
	for _, b := range all {
		if b.Time > 0 && (best == nil ||
			cmp.Or(cmp.Compare(b.Time, best.Time), cmp.Compare(best.Link+best.Kind, b.Link+b.Kind)) > 0) {
			best = b
		}
	}
	return best
}

// wasBusy reports whether a link was busy for most of the time.
func (m *maker) wasBusy(link string) bool {
	for _, h := range m.data.Fabric.Hops {
		if h.Name == link {
			return float64(h.Busy) >= busyBottleneck*float64(m.data.Span)
		}
	}
	return false
}
