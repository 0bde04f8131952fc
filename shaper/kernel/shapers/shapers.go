// SPDX-License-Identifier: Apache-2.0

// Package shapers chooses how the kernel datapath shapes, and starts it.
package shapers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
	"github.com/ddlemu/ddlemu/shaper/kernel/wire"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// Shaper puts the links of a fabric into force between its namespaces. Its methods
// are called by one goroutine.
type Shaper interface {
	// Follow puts changed parameters into force. It is called when the fabric's
	// file says that a hop has changed.
	Follow() error
	// Count brings the counters in the fabric's file up to date.
	Count() error
	// Close ends what Start began, but for what goes with the namespaces.
	Close() error
}

// kind is one way to shape.
type kind struct {
	name  string
	needs []string                // parts of the kernel, as package probe names them
	can   func(s link.Spec) error // nil, or what a link asks for that it cannot
	start func(w nodes.Network) (Shaper, error)
	does  string // what it costs and where its floor is, see docs/kernel.md
}

// kinds are the shapers, the best first.
var kinds = []kind{
	{
		configs.EDTShaper, []string{"fq", BPF, DepartureTimes}, nil,
		func(w nodes.Network) (Shaper, error) { return tc.StartEDT(w) },
		"all of the link model, in the kernel, and how late each packet is; a packet leaves when a timer of the kernel fires, so latencies are kept from about 100 us on",
	},
	{
		configs.NetemShaper, []string{"netem", "htb"}, nil,
		func(w nodes.Network) (Shaper, error) { return tc.StartNetem(w) },
		"rate, latency, jitter and loss, in the kernel; how late packets are is not verified, and after a pause 400 us of the rate pass at once; latencies are kept from about 100 us on",
	},
	{
		configs.HTBShaper, []string{"htb", BPF}, tc.CheckHTB,
		func(w nodes.Network) (Shaper, error) { return tc.StartHTB(w) },
		"rate and loss, in the kernel, for links without latency; how late packets are is not verified, and after a pause 400 us of the rate pass at once",
	},
	{
		configs.WireShaper, []string{"htb"}, nil,
		func(w nodes.Network) (Shaper, error) { return wire.Start(w.File, w.Fabric, w.Plan) },
		"all of the link model, by a process that carries every packet: it costs a core, and bounds what all links carry together; each packet's lateness is recorded",
	},
}

// Start starts the shaper called asked, or the best one if it is auto or empty, and
// returns what it is and why. An error that wraps tc.ErrUnavailable says that the kernel
// or the shaper cannot do what is asked for.
func Start(asked string, w nodes.Network) (Shaper, string, error) {
	k, why, err := choose(asked, w.Fabric, &Kernel{})
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

// CheckLink says what the shaper called name cannot make of a link that the kernel
// datapath can have, see configs.Fabric.ValidateLink.
func CheckLink(name string, s link.Spec) error {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 || kinds[i].can == nil {
		return nil
	}
	return kinds[i].can(s)
}

// choose is the shaper for a fabric, and in words why it is not a better one.
func choose(asked string, f *fabric.Fabric, kernel *Kernel) (kind, string, error) {
	if asked != "" && asked != configs.AutoShaper {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == asked })
		if i < 0 {
			return kind{}, "", fmt.Errorf("shaper %s: %w", asked, tc.ErrUnavailable)
		}
		if err := kinds[i].fits(f, kernel); err != nil {
			return kind{}, "", fmt.Errorf("shaper %s: %w; --shaper auto selects one that is available", asked, err)
		}
		return kinds[i], "", nil
	}
	var not []string
	var errs []error
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
		errs = append(errs, fmt.Errorf("%s: %w", k.name, err))
	}
	return kind{}, "", fmt.Errorf("no shaper is available: %w", errors.Join(errs...))
}

// fits is nil if k can do what f asks for, and the kernel has what k needs.
func (k *kind) fits(f *fabric.Fabric, kernel *Kernel) error {
	for i, h := range f.Hops {
		if h.Kind != fabric.Link || k.can == nil {
			continue
		}
		if err := k.can(h.Spec); err != nil {
			return fmt.Errorf("%s: %w", f.HopName(i), err)
		}
	}
	return k.has(kernel)
}

// has is nil if the kernel has what k needs.
func (k *kind) has(kernel *Kernel) error {
	for _, name := range k.needs {
		if err := kernel.Probe(name); err != nil {
			return fmt.Errorf("%w: it needs %s: %w", tc.ErrUnavailable, name, err)
		}
	}
	return nil
}

// Finding is what a shaper can be used for here.
type Finding struct {
	Name string
	Does string // what it does and costs
	Err  error  // nil if the kernel has what it needs
	Any  bool   // whatever a link asks for, latency too
}

// Findings are the shapers, the best first: auto takes the first that the kernel has
// and that can do what the links ask for.
func Findings(kernel *Kernel) []Finding {
	var all []Finding
	for _, k := range kinds {
		all = append(all, Finding{k.name, k.does, k.has(kernel), k.can == nil})
	}
	return all
}
