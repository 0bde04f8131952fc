// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// InForce is what a fabric that is up or was recorded has in force, compared with the built-in profile of its name, if
// there is one. f has the links in force. A fabric of a file that has the name of a profile is compared with the
// profile.
func (f *Fabric) InForce() (configs.InForce, error) {
	begun, err := New(&f.Config)
	if err != nil {
		return configs.InForce{}, err
	}
	base, err := configs.Profile(f.Config.Name)
	if err != nil {
		base = &f.Config
	}
	links, trunks := 0, 0 // changed since the fabric was brought up
	var betweenSwitches []configs.Link
	for i, h := range f.Hops {
		if h.Kind == link.Trunk {
			betweenSwitches = append(betweenSwitches, LinkOf(h.Spec))
		}
		switch {
		case h.Spec == begun.Hops[i].Spec:
		case h.Kind == link.Link:
			links++
		case h.Kind == link.Trunk:
			trunks++
		}
	}
	now := f.Config
	if all, common := f.commonLink(); common {
		now.Link, links = all, 0
		now.Links = slices.DeleteFunc(slices.Clone(now.Links), func(o configs.LinkOverride) bool {
			p, err := configs.ParsePattern(o.Match)
			return err != nil || !p.Trunk()
		})
	}
	in := now.InForce(base).WithTrunks(&now, betweenSwitches)
	if links+trunks > 0 {
		in = in.WithShaped(links + trunks)
	}
	return in, nil
}

// commonLink is what each link between NICs is, false if some differ.
func (f *Fabric) commonLink() (configs.Link, bool) {
	var first *Hop
	for i := range f.Hops {
		switch h := &f.Hops[i]; {
		case h.Kind != link.Link:
		case first == nil:
			first = h
		case h.Spec != first.Spec:
			return configs.Link{}, false
		}
	}
	if first == nil {
		return configs.Link{}, false
	}
	return LinkOf(first.Spec), true
}
