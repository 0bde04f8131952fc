// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Uncrossed names the entries of the fabric's list `links` that change nothing: no message of the calls crosses a link
// that they match, because ECMP has chosen other paths. crossed are the hops that messages cross. Without any, nothing
// is known.
func Uncrossed(f *fabric.Fabric, crossed []int) (notes []string) {
	for i := range f.Config.Links {
		o := &f.Config.Links[i]
		hops, err := f.Select(o.Match)
		isCrossed := func(h int) bool { return slices.Contains(crossed, h) }
		if err != nil || len(crossed) == 0 || slices.ContainsFunc(hops, isCrossed) {
			continue // fabric.New has refused entries that match nothing
		}
		notes = append(notes, fmt.Sprintf("links %s: no message crosses them, so what the fabric changes there has no "+
			"effect: the messages have other paths", o.Match))
	}
	return notes
}

// UncrossedBy is Uncrossed for the rows of expected times.
func UncrossedBy(c *configs.Fabric, rows []Forecast) ([]string, error) {
	f, err := fabric.New(c)
	if err != nil {
		return nil, err
	}
	var crossed []int
	for i := range rows {
		crossed = append(crossed, rows[i].Crossed...)
	}
	return Uncrossed(f, crossed), nil
}
