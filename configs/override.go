// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// LinkOverride is a change to the links and ports that Match names, see Pattern.
type LinkOverride struct {
	Match     string `yaml:"match"`
	LinkPatch `yaml:",inline"`
}

// Shape changes all links between nodes, also those that Links changes.
func (f *Fabric) Shape(p LinkPatch) {
	f.shape(p)
	f.prune()
}

// prune removes the overrides that change nothing.
func (f *Fabric) prune() {
	f.Links = slices.DeleteFunc(f.Links, func(o LinkOverride) bool { return o.Empty() })
	if len(f.Links) == 0 {
		f.Links = nil
	}
}

// shape is Shape without prune.
func (f *Fabric) shape(p LinkPatch) {
	p.Apply(&f.Link)
	if p.Bandwidth != nil {
		f.NCCL.Speed = 0 // it was the speed of other ports
	}
	for i := range f.Links {
		// Links between switches stay: the topology's trunk describes them.
		if q, err := ParsePattern(f.Links[i].Match); err == nil && q.Trunk() {
			continue
		}
		f.Links[i].drop(&p)
	}
}

// validateOverride checks an override on its own. net is f's; validateECN checks the
// overrides together.
func (f *Fabric) validateOverride(field string, o *LinkOverride, net *Net) error {
	if o.Match == "" {
		return Errorf(field+".match", "missing: %s", patternHelp)
	}
	p, err := ParsePattern(o.Match)
	if err == nil {
		err = p.Check(f)
	}
	if err != nil {
		return Errorf(field+".match", "%w", err)
	}
	if p.Trunk() {
		return f.validateTrunkOverride(field, p, o, net)
	}
	if f.Nodes == 1 {
		return Errorf(field, "changes nothing: a fabric of one node has no links")
	}
	l := f.Link
	o.Apply(&l)
	return within(field, cmp.Or(l.validateValues(), f.ValidateLink(&l)))
}

// validateECN is Link.validateECN of the ports and links that overrides change,
// after each of them.
func (f *Fabric) validateECN() error {
	if !slices.ContainsFunc(f.Links, func(o LinkOverride) bool { return o.ECN != nil || o.Queue != nil }) {
		return nil
	}
	patterns := make([]Pattern, len(f.Links))
	for i := range f.Links {
		patterns[i], _ = ParsePattern(f.Links[i].Match) // validateOverride has read it
	}
	check := func(matches func(Pattern) bool) error {
		l := f.Link
		for i := range f.Links {
			if !matches(patterns[i]) {
				continue
			}
			f.Links[i].Apply(&l)
			if err := l.validateECN(); err != nil {
				return within(fmt.Sprintf("links[%d]", i), err)
			}
		}
		return nil
	}
	nics := f.Nodes * f.NICsPerNode
	for i := range nics * nics {
		from, to := f.end(i/nics), f.end(i%nics)
		matches := func(p Pattern) bool { return p.MatchLink(from, to) }
		switch {
		case from == to:
			matches = func(p Pattern) bool { return p.MatchPorts(from) }
		case from.Node == to.Node:
			continue
		}
		if err := check(matches); err != nil {
			return err
		}
	}
	return nil
}

// validateTrunkOverride checks a change to links between switches, and applies it to
// net, so that later overrides are checked on top of it.
func (f *Fabric) validateTrunkOverride(field string, p Pattern, o *LinkOverride, net *Net) error {
	named := false
	for i, link := range net.Links {
		if !p.MatchTrunk(net.Switches[link.From], net.Switches[link.To]) {
			continue
		}
		named = true
		l := &net.Trunks[i]
		o.Apply(l)
		if err := cmp.Or(l.Validate(), f.ValidateLink(l)); err != nil {
			return within(field, err)
		}
	}
	if !named {
		return Errorf(field+".match", "%q names no link between switches: there are %s", p, net.some())
	}
	return nil
}

// Near says which links between switches are named similarly to what a user gave; some of all links if none is.
func (n *Net) Near(name string) string {
	var all []string
	for _, l := range n.Links {
		all = append(all, n.Switches[l.From]+":"+n.Switches[l.To])
	}
	if near := Nearest(name, all); len(near) > 0 {
		return "did you mean " + OrList(near) + "?"
	}
	return "between its switches there are " + n.some()
}

// some lists up to three links between switches.
func (n *Net) some() string {
	var names []string
	for _, l := range n.Links {
		if names = append(names, n.Switches[l.From]+":"+n.Switches[l.To]); len(names) == 3 {
			return strings.Join(names, ", ") + " and others"
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
