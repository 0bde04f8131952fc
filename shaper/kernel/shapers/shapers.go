// SPDX-License-Identifier: Apache-2.0

// Package shapers lists the shapers of the kernel datapath, probes what this kernel supports, and selects and starts
// the shaper of a fabric.
package shapers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
	"github.com/ddlemu/ddlemu/shaper/kernel/wire"
)

// Shaper enforces the links of a fabric between its namespaces. Its methods are called by one goroutine.
type Shaper interface {
	// Follow applies the parameters in the fabric's file. It is called when the file says that they have changed.
	Follow() error
	// Count updates the counters in the fabric's file.
	Count() error
	// Tap is where packets are read for `ddlemu capture`; nil if the shaper has no eBPF programs that see them. It is
	// closed before the shaper. It may be used by another goroutine.
	Tap() tap.Source
	// Close stops the shaper. What it created in the fabric's namespaces may remain: it is deleted with them.
	Close() error
}

// kind describes one of the shapers.
type kind struct {
	name     string
	features []string // features of the kernel that it needs
	// says which property of a link it does not support, except reordering; nil if it supports all
	check       func(s link.Spec) error
	start       func(w nodes.Network) (Shaper, error)
	description string // what it does and costs; docs/kernel.md has the details
}

// kinds are the shapers in order of preference.
var kinds = []kind{
	{
		configs.EDTShaper, []string{"fq", BPF, DepartureTimes}, nil,
		func(w nodes.Network) (Shaper, error) { return tc.StartEDT(w) },
		"the link model except reordering, in the kernel, with the lateness of each packet; a timer of the kernel " +
			"sends the packets, so latencies are accurate from about 100 us",
	},
	{
		configs.NetemShaper, []string{"netem", "htb"}, nil,
		func(w nodes.Network) (Shaper, error) { return tc.StartNetem(w) },
		"rate, latency, jitter and loss, in the kernel; lateness is not measured; after idle time a link sends 400 us " +
			"of its rate at once; latencies are accurate from about 100 us",
	},
	{
		configs.HTBShaper, []string{"htb", BPF}, tc.CheckHTB,
		func(w nodes.Network) (Shaper, error) { return tc.StartHTB(w) },
		"rate and loss, in the kernel, for links without latency; lateness is not measured; after idle time a link " +
			"sends 400 us of its rate at once",
	},
	{
		configs.WireShaper, []string{"htb"}, nil,
		func(w nodes.Network) (Shaper, error) { return wire.Start(w.File, w.Fabric, w.Plan) },
		"the whole link model, with the lateness of each packet, in a process that forwards every packet: it uses one " +
			"core, which limits the sum of the rates of all links",
	},
}

// Start starts the shaper called name on w. If name is "" or auto, it selects the first that the kernel and the links
// permit. It returns the name of the shaper and, if others are preferred, their names. The error wraps
// tc.ErrUnavailable if the kernel or the shaper lacks a needed feature.
func Start(name string, w nodes.Network) (s Shaper, what string, err error) {
	k, rejected, err := selectKind(name, w.Fabric, &Kernel{})
	if err != nil {
		return nil, "", err
	}
	w.File.SetShaper(k.name)
	s, err = k.start(w)
	if err != nil {
		return nil, "", fmt.Errorf("start shaper %s: %w", k.name, err)
	}
	return s, k.name + rejected, nil
}

// CheckLink returns an error that names a property of s that the shaper called name does not support. The kernel
// datapath must support s, see configs.Fabric.ValidateLink.
func CheckLink(name string, s link.Spec) error {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return kinds[i].checkLink(s)
}

// checkLink is CheckLink for k.
func (k *kind) checkLink(s link.Spec) error {
	if s.Reorder.Share != 0 && k.name != configs.WireShaper {
		return fmt.Errorf("%w: %s does not reorder packets: bring the fabric up with --set shaper=wire", tc.ErrUnavailable,
			k.name)
	}
	if k.check == nil {
		return nil
	}
	return k.check(s)
}

// selectKind returns the shaper called name or, if name is "" or auto, the first that is suitable, and the names of
// those before it, as a text.
func selectKind(name string, f *fabric.Fabric, kernel *Kernel) (k kind, rejected string, err error) {
	if name != "" && name != configs.AutoShaper {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		if i < 0 {
			return kind{}, "", fmt.Errorf("shaper %s: %w", name, tc.ErrUnavailable)
		}
		if err := kinds[i].suits(f, kernel); err != nil {
			return kind{}, "", fmt.Errorf("shaper %s: %w; --set shaper=auto selects one that is available", name, err)
		}
		return kinds[i], "", nil
	}
	var names []string
	var errs []error
	for _, k := range kinds {
		err := k.suits(f, kernel)
		if err == nil {
			if len(names) > 0 {
				rejected = ", not " + strings.Join(names, ", ")
			}
			return k, rejected, nil
		}
		names = append(names, k.name)
		errs = append(errs, fmt.Errorf("%s: %w", k.name, err))
	}
	return kind{}, "", fmt.Errorf("no shaper is available: %w", errors.Join(errs...))
}

// suits returns nil if k supports the links of f and the kernel has what k needs.
func (k *kind) suits(f *fabric.Fabric, kernel *Kernel) error {
	for i, h := range f.Hops {
		if h.Kind != link.Link {
			continue
		}
		if err := k.checkLink(h.Spec); err != nil {
			return fmt.Errorf("%s: %w", f.HopName(i), err)
		}
	}
	return k.probe(kernel)
}

// probe returns nil if the kernel has what k needs.
func (k *kind) probe(kernel *Kernel) error {
	for _, name := range k.features {
		if err := kernel.Probe(name); err != nil {
			return fmt.Errorf("%w: it needs %s: %w", tc.ErrUnavailable, name, err)
		}
	}
	return nil
}

// Info describes a shaper.
type Info struct {
	Name        string
	Description string // what it does and costs
	Err         error  // nil if the kernel has what it needs
	AnyLatency  bool   // it supports links with latency
}

// List returns the shapers in order of preference. The shaper auto is the first that the kernel and the links permit.
func List(kernel *Kernel) []Info {
	var all []Info
	for _, k := range kinds {
		all = append(all, Info{k.name, k.description, k.probe(kernel), k.check == nil})
	}
	return all
}
