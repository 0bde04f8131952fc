// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Uncrossed names the entries of the fabric's list `links` that change nothing, as UncrossedLinks does.
func Uncrossed(f *fabric.Fabric, crossed []int) []string {
	var patterns []string
	for i := range f.Config.Links {
		patterns = append(patterns, f.Config.Links[i].Match)
	}
	return UncrossedLinks(f, patterns, crossed)
}

// UncrossedLinks names the patterns of links that no message crosses, because ECMP has chosen other paths: what changes
// there has no effect. crossed are the hops that messages cross. Without any, nothing is known.
func UncrossedLinks(f *fabric.Fabric, patterns []string, crossed []int) (notes []string) {
	for _, pattern := range patterns {
		hops, err := f.Select(pattern)
		isCrossed := func(h int) bool { return slices.Contains(crossed, h) }
		if err != nil || len(crossed) == 0 || slices.ContainsFunc(hops, isCrossed) {
			continue // whoever takes a pattern refuses one that matches nothing
		}
		notes = append(notes, fmt.Sprintf("links %s: no message crosses them, so what changes there has no effect: the "+
			"messages have other paths", pattern))
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
