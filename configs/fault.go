// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Fault is a change to the links and ports that Match names, see Pattern, for some time. A rate or a latency may be
// given in relation to what a link has without the fault.
type Fault struct {
	At  time.Duration `yaml:"at"`            // when it begins, by the fabric's clock, which starts with the fabric
	For time.Duration `yaml:"for,omitempty"` // how long it lasts; 0 = until the end

	Rate       float64       `yaml:"rate,omitempty"`        // times the bandwidth, above 0 and below 1; 0 = not given
	AddLatency time.Duration `yaml:"add_latency,omitempty"` // more latency

	LinkOverride `yaml:",inline"`

	// Where is the place at which it is given, such as plan.yaml:3, for errors that only package fabric finds.
	Where string `yaml:"-"`
}

// MaxFaults is the number of faults that a fabric may have, and MaxFaultTime the largest of their times.
const (
	MaxFaults    = 4096
	MaxFaultTime = 365 * 24 * time.Hour
)

// fields reads the keys of a fault.
func (x *Fault) fields(d *decoder) []field {
	return append([]field{
		{"at", func(path string, n *yaml.Node) error {
			x.Where = d.at(n)
			return scalar(d, &x.At, ParseDuration)(path, n)
		}},
		{"for", scalar(d, &x.For, ParseDuration)},
		{"match", scalar(d, &x.Match, text)},
		{"rate", scalar(d, &x.Rate, parseFloat)},
		{"add_latency", scalar(d, &x.AddLatency, ParseDuration)},
	}, x.LinkPatch.fields(d)...)
}

// faults reads the list of faults.
func (d *decoder) faults(dst *[]Fault) func(string, *yaml.Node) error {
	return list(d, dst, func(x *Fault) []field { return x.fields(d) })
}

// End is when the fault ends, by the fabric's clock; the largest duration if it lasts until the end.
func (x *Fault) End() time.Duration {
	if x.For == 0 {
		return math.MaxInt64
	}
	return x.At + x.For
}

// Patch is what a link gets that has l without the fault.
func (x *Fault) Patch(l *Link) LinkPatch {
	p := x.LinkPatch
	if x.Rate > 0 {
		p.Bandwidth = new(units.Bandwidth(math.Round(float64(l.Bandwidth) * x.Rate)))
	}
	if x.AddLatency > 0 {
		p.Latency = new(l.Latency + x.AddLatency)
	}
	return p
}

// validateFaults checks each fault on its own. Package fabric checks them together, for it knows which links they name.
func (f *Fabric) validateFaults(net *Net) error {
	if len(f.Faults) == 0 {
		return nil
	}
	if len(f.Faults) > MaxFaults {
		return Errorf("faults", "%d are too many: at most %d", len(f.Faults), MaxFaults)
	}
	for i := range f.Faults {
		if err := f.validateFault(fmt.Sprintf("faults[%d]", i), &f.Faults[i], net); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fabric) validateFault(field string, x *Fault, net *Net) error {
	switch {
	case x.At <= 0 || x.At > MaxFaultTime:
		return Errorf(field+".at", "%v is out of range: must be 1ns to %v; a link that is so from the start belongs in links",
			x.At, MaxFaultTime)
	case x.For < 0 || x.For > MaxFaultTime:
		return Errorf(field+".for", "%v is out of range: must be 1ns to %v, or missing for a fault that stays", x.For,
			MaxFaultTime)
	case x.Rate != 0 && !(x.Rate > 0 && x.Rate < 1):
		return Errorf(field+".rate", "%v is out of range: must be above 0 and below 1", x.Rate)
	case x.Rate != 0 && x.Bandwidth != nil:
		return Errorf(field+".rate", "given with bandwidth: give one of them")
	case x.AddLatency < 0 || x.AddLatency > MaxLatency:
		return Errorf(field+".add_latency", "%v is out of range: must be 1ns to %v", x.AddLatency, MaxLatency)
	case x.AddLatency != 0 && x.Latency != nil:
		return Errorf(field+".add_latency", "given with latency: give one of them")
	case x.Rate == 0 && x.AddLatency == 0 && x.Empty():
		return Errorf(field, "changes nothing: give it rate, add_latency, or a %s", linkKeys())
	}
	if net != nil { // what one fault changes is not so for the others
		during := *net
		during.Trunks = slices.Clone(net.Trunks)
		net = &during
	}
	return f.validateOverride(field, &x.LinkOverride, net)
}
