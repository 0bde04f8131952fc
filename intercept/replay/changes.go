// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// LinkChange is what was changed of one or more hops at a time, in the same way.
type LinkChange struct {
	Time int64 // ns of the fabric's clock
	What string
	Hops []int // in the order of their changes
}

// changeTime is how long one `ddlemu shape` takes to change all hops at most, ns of the fabric's clock.
const changeTime = 10e6

// SpecsAt are the parameters of all hops at a time.
func (f *Fabric) SpecsAt(at int64) []link.Spec {
	specs := make([]link.Spec, len(f.Hops))
	for h := range f.Hops {
		specs[h] = f.Hops[h].Spec
	}
	for _, c := range f.Changes {
		if c.Time <= at && c.Hop < len(specs) {
			specs[c.Hop] = c.Spec
		}
	}
	return specs
}

// LinkChanges are the changes after a time, in their order.
func (f *Fabric) LinkChanges(after int64) (all []LinkChange) {
	specs := f.SpecsAt(after)
	for _, c := range f.Changes {
		if c.Time <= after || c.Hop >= len(specs) {
			continue
		}
		what := configs.LinkDifference(fabric.LinkOf(specs[c.Hop]), fabric.LinkOf(c.Spec))
		specs[c.Hop] = c.Spec
		if what == "" {
			continue
		}
		same := slices.IndexFunc(all, func(l LinkChange) bool {
			return l.What == what && c.Time-l.Time <= changeTime && !slices.Contains(l.Hops, c.Hop)
		})
		if same < 0 {
			all = append(all, LinkChange{Time: c.Time, What: what})
			same = len(all) - 1
		}
		all[same].Hops = append(all[same].Hops, c.Hop)
	}
	return all
}

// Text says what was changed of which hops.
func (c *LinkChange) Text(f *fabric.Fabric) string {
	const shown = 3
	var names []string
	for _, h := range c.Hops[:min(len(c.Hops), shown)] {
		names = append(names, f.HopName(h))
	}
	text := strings.Join(names, ", ")
	if more := len(c.Hops) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ": " + c.What
}
