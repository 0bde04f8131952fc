// SPDX-License-Identifier: Apache-2.0

// Package shapers chooses how the kernel datapath shapes, and starts it.
package shapers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/bridge"
	"github.com/ddlemu/ddlemu/shaper/kernel/probe"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
	"github.com/ddlemu/ddlemu/shaper/kernel/wire"
	"github.com/ddlemu/ddlemu/shaper/kernel/world"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// World and Shaper are those of package world.
type (
	World  = world.World
	Shaper = world.Shaper
)

// kind is one way to shape.
type kind struct {
	name  string
	needs []string                // parts of the kernel, as package probe names them
	can   func(s link.Spec) error // nil, or what a link asks for that it cannot
	start func(w World) (Shaper, error)
}

// kinds are the shapers, the best first.
var kinds = []kind{
	{configs.HTBShaper, []string{"htb"}, tc.HTBCan, func(w World) (Shaper, error) { return tc.StartHTB(w) }},
	{configs.WireShaper, []string{"htb"}, nil, func(w World) (Shaper, error) { return wire.Start(w.File, w.Fabric, w.Plan) }},
}

// Start starts the shaper called asked, or the best one if it is auto or empty, and
// returns what it is and why. An error that wraps world.ErrCannot says that the kernel
// or the shaper cannot do what is asked for.
func Start(asked string, w World) (Shaper, string, error) {
	k, why, err := choose(asked, w.Fabric, probe.Kernel())
	if err != nil {
		return nil, "", err
	}
	w.File.SetShaper(k.name)
	s, err := k.start(w)
	if err != nil {
		return nil, "", fmt.Errorf("start shaper %s: %w", k.name, err)
	}
	return s, k.name + why, nil
}

// Can says what the shaper called name cannot make of a link.
func Can(name string, s link.Spec) error {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 || kinds[i].can == nil {
		return nil
	}
	return kinds[i].can(s)
}

// choose is the shaper for a fabric, and in words why it is not a better one.
func choose(asked string, f *fabric.Fabric, kernel probe.Parts) (kind, string, error) {
	if asked != "" && asked != configs.AutoShaper {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == asked })
		if i < 0 {
			return kind{}, "", fmt.Errorf("shaper %s: %w", asked, world.ErrCannot)
		}
		if err := kinds[i].fits(f, kernel); err != nil {
			return kind{}, "", fmt.Errorf("shaper %s: %w; --shaper auto takes what can be had", asked, err)
		}
		return kinds[i], "", nil
	}
	var not []string
	for _, k := range kinds {
		err := k.fits(f, kernel)
		if err == nil {
			why := ""
			if len(not) > 0 {
				why = ", not " + strings.Join(not, ", ")
			}
			return k, why, nil
		}
		not = append(not, k.name)
	}
	return kind{"bridge", nil, nil, unshaped}, ", which shapes nothing", nil
}

// fits is nil if the kernel has what k needs, and k can do what f asks for.
func (k *kind) fits(f *fabric.Fabric, kernel probe.Parts) error {
	for _, name := range k.needs {
		if err := kernel.Has(name); err != nil {
			return fmt.Errorf("%w: it needs %s, %w", world.ErrCannot, name, err)
		}
	}
	if k.can == nil {
		return nil
	}
	for i, h := range f.Hops {
		if h.Kind != fabric.Link {
			continue
		}
		if err := k.can(h.Spec); err != nil {
			return fmt.Errorf("%s: %w", f.HopName(i), err)
		}
	}
	return nil
}

type none struct{}

func unshaped(w World) (Shaper, error) { return none{}, bridge.Connect(w.Plan) }

func (none) Follow() error { return nil }
func (none) Count() error  { return nil }
func (none) Close() error  { return nil }
