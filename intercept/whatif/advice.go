// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"slices"
	"strings"
)

// What counts in advice.
const (
	leastGain = -0.01 // the time of all calls changes by 1 % at least
	enough    = 0.9   // of what the best upgrade brings
)

// Advise returns the place of the smallest upgrade that brings about as much as any, and says so.
// The changes are from Upgrades, in their order, with their results. The place is -1 if no upgrade is worth it.
func Advise(changes []Change, results []*Result) (best int, text string) {
	all := slices.IndexFunc(changes, func(c Change) bool { return c.Kind == AllLinks })
	if all < 0 || results[all].Before[0].Calls == 0 {
		return -1, ""
	}
	best = smallest(changes, results)
	switch best {
	case -1:
		text = fmt.Sprintf("no upgrade of links is worth it: %s bring %s", changes[all].Name, results[all].Text())
	case all:
		text = onlyAll(changes, results, all)
	default:
		text = adviceText(changes, results, best, all)
	}
	for i := range changes { // latencies and losses
		if gain := results[i].Cautious(); !changes[i].IsUpgrade() && gain <= leastGain && gain < results[all].Cautious() {
			text += fmt.Sprintf("; %s: %s", changes[i].Name, results[i].Text())
		}
	}
	return best, text
}

// smallest is the place of the upgrade with the fewest cables that brings about as much as the best one, which is not
// always all links: another order of messages may be better. It is -1 if none brings anything.
func smallest(changes []Change, results []*Result) int {
	most := 0.0
	for i := range changes {
		if changes[i].IsUpgrade() {
			most = min(most, results[i].Cautious())
		}
	}
	best := -1
	for i := range changes {
		gain := results[i].Cautious()
		if !changes[i].IsUpgrade() || gain > leastGain || gain > enough*most {
			continue
		}
		if best < 0 || len(changes[i].Links) < len(changes[best].Links) ||
			len(changes[i].Links) == len(changes[best].Links) && gain < results[best].Cautious() {
			best = i
		}
	}
	return best
}

// IsUpgrade says whether a change makes links faster.
func (c *Change) IsUpgrade() bool {
	switch c.Kind {
	case OneCable, OneNIC, Together, Tier, AllLinks:
		return true
	}
	return false
}

// adviceText says what the best change brings, beside all links and beside each of its parts alone.
func adviceText(changes []Change, results []*Result, best, all int) string {
	c := &changes[best]
	text := fmt.Sprintf("%s: %s", c.Name, results[best].Text())
	if c.Kind == Together && len(c.Links) > mostNames {
		text = fmt.Sprintf("%s (%s): %s", c.Name, listed(c.Links), results[best].Text())
	}
	text += fmt.Sprintf("; %s bring %s", changes[all].Name, results[all].Text())
	alone, tried := "", 0
	most := 0.0
	for i := range changes {
		if changes[i].IsUpgrade() && len(changes[i].Links) == 1 && slices.Contains(c.Links, changes[i].Links[0]) {
			if gain := results[i].Cautious(); tried == 0 || gain < most {
				alone, most = results[i].Text(), gain
			}
			tried++
		}
	}
	if len(c.Links) > 1 && tried > 0 {
		text += fmt.Sprintf("; each alone %s at best", alone)
	}
	return text
}

// onlyAll says that no part of the fabric brings as much as all links, and what comes nearest.
func onlyAll(changes []Change, results []*Result, all int) string {
	links := changes[all].Name
	if parts := changes[all].Links; len(parts) == 2 && !strings.ContainsAny(parts[0]+parts[1], ":>") {
		links = fmt.Sprintf("both NICs x%d", Factor)
	}
	text := fmt.Sprintf("only %s together bring %s", links, results[all].Text())
	part := -1
	for i := range changes {
		if i != all && changes[i].IsUpgrade() && (part < 0 || results[i].Cautious() < results[part].Cautious()) {
			part = i
		}
	}
	if part < 0 {
		return fmt.Sprintf("%s: %s; no part of them was tried", changes[all].Name, results[all].Text())
	}
	if results[part].Cautious() > leastGain {
		return text + ", and no part of them brings anything"
	}
	return fmt.Sprintf("%s; of their parts, %s bring most: %s", text, changes[part].Name, results[part].Text())
}

// mostListed is how many names of links a line has.
const mostListed = 12

// listed is the names of links in a line.
func listed(names []string) string {
	if n := len(names) - mostListed; n > 0 {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:mostListed], ", "), n)
	}
	return strings.Join(names, ", ")
}

// Percent is a gain for people.
func Percent(gain float64) string {
	text := fmt.Sprintf("%+.1f %%", 100*gain)
	if text[1:] == "0.0 %" {
		return text[1:]
	}
	return text
}
