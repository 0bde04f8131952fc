// SPDX-License-Identifier: Apache-2.0

package report

import "github.com/ddlemu/ddlemu/intercept/whatif"

// AddUpgrades puts changes of links and what they bring into the document, with the notes on them.
func (d *Data) AddUpgrades(changes []whatif.Change, results []*whatif.Result, notes []string) {
	best, advice := whatif.Advise(changes, results)
	d.Upgrades.Advice, d.Upgrades.Notes = advice, append(d.Upgrades.Notes, notes...)
	for i := range changes {
		c, r := &changes[i], results[i]
		d.Upgrades.List = append(d.Upgrades.List, Upgrade{
			Name: c.Name, Kind: string(c.Kind), Links: append([]string{}, c.Links...), Advised: i == best,
			Before: r.Before[0].Ns / d.TimeScale, After: r.After[0].Ns / d.TimeScale, Gain: r.Gain(),
			During: r.During[0].Ns / d.TimeScale, GainDuring: r.GainDuring(), Difference: r.Text(),
		})
	}
}
