// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Limits of a fabric's values.
const (
	MaxNodes       = 256
	MaxNICsPerNode = 32
	MaxNICs        = 256 // nodes x NICs per node: their links are about as many as the square
	MaxGPUsPerNode = 64
	MaxNVLinks     = 18 // of a GPU, as of H100 and B200
	MaxTimeScale   = 1024

	MinBandwidth = units.Mbps
	MaxBandwidth = 10 * units.Tbps
	MaxLatency   = 10 * time.Second // also of jitter, overhead, gap and a host's time per message
	MinMTU       = 256              // bytes
	MaxMTU       = 65536            // bytes; also of framing
	MaxQueue     = 4 * units.GiB

	MinBuffer     = 4 * units.KiB // send buffer and window of tcp
	MaxBuffer     = units.GiB
	MinRTO        = time.Microsecond
	MaxRTO        = 10 * time.Minute
	MaxTimeout    = time.Hour
	MaxRetryCount = 63
	MaxRails      = 8

	// MaxLoss is the highest loss of a link of datapath shm. The model sends a packet at
	// most 64 times (MaxAttempts in shaper/engine/link), and the last attempt always arrives. With
	// independent losses that happens to 0.72^64 = 10^-9 of the packets. In a burst longer
	// than 64 packets, one packet of 64 arrives although it should not; with a long-run loss
	// of MaxBurstLoss these are 1 % of the packets that arrive.
	MaxLoss      = 0.72
	MaxBurstLoss = 0.39

	MinJitterTable = 2
	MaxJitterTable = 4096
	maxQuantile    = 1000
	maxText        = 4096 // bytes of a description or source
	maxName        = 64   // bytes
)

// Validate checks every value of f, by itself and together with the others. The error
// is an *Error that names the field.
func (f *Fabric) Validate() error {
	for i := range f.Links {
		if f.Links[i].Empty() {
			return Errorf(fmt.Sprintf("links[%d]", i), "changes nothing: give it a %s", linkKeys())
		}
	}
	return f.validate()
}

// validate is Validate, but it allows overrides that change nothing.
func (f *Fabric) validate() error {
	if err := f.validateShape(); err != nil {
		return err
	}
	if err := within("link", cmp.Or(f.Link.Validate(), f.ValidateLink(&f.Link))); err != nil {
		return err
	}
	net, err := f.Net()
	if err != nil {
		return err
	}
	if err := cmp.Or(f.validateNode(), f.validateGPU(), f.validateNodeTime()); err != nil {
		return err
	}
	for i := range f.Links {
		if err := f.validateOverride(fmt.Sprintf("links[%d]", i), &f.Links[i], net); err != nil {
			return err
		}
	}
	return cmp.Or(
		f.validateECN(),
		f.validateFaults(net),
		within("transport", f.Transport.validate()),
		f.validateNCCL(),
		between("endpoint.overhead", f.Endpoint.Overhead, 0, MaxLatency),
		between("endpoint.gap", f.Endpoint.Gap, 0, MaxLatency),
		within("nic_time", f.NICTime.validate()),
		f.validateHost(),
		f.validateKernel(),
	)
}

// validateHost checks what messages cost the hosts.
func (f *Fabric) validateHost() error {
	h := f.Host
	if h.Any() && f.OnKernel() {
		return Errorf("host", "given for the datapath kernel: there the real hosts do the work; only shm emulates it")
	}
	return cmp.Or(between("host.per_message", h.PerMessage, 0, MaxLatency), at("host.copy", inRate(h.Copy)))
}

// validateGPUs checks the list of the nearest NICs of GPUs.
func (f *Fabric) validateGPUs() error {
	if f.NICOfGPU == nil {
		return nil
	}
	if n := cmp.Or(f.Node.GPUs, f.GPUsPerNode); len(f.NICOfGPU) != n {
		return Errorf("nic_of_gpu",
			"has %d NICs: must have one for each GPU of a node, of which there are %d (node.gpus, or else "+
				"gpus_per_node)", len(f.NICOfGPU), n)
	}
	for i, n := range f.NICOfGPU {
		if n < 0 || n >= f.NICsPerNode {
			return Errorf(fmt.Sprintf("nic_of_gpu[%d]", i), "%d: each node has NIC 0 to %d", n, f.NICsPerNode-1)
		}
	}
	return nil
}

// validateShape checks everything except links, transport, endpoint and host.
func (f *Fabric) validateShape() error {
	if err := f.validateTexts(); err != nil {
		return err
	}
	if err := cmp.Or(
		between("nodes", f.Nodes, 1, MaxNodes),
		between("gpus_per_node", cmp.Or(f.GPUsPerNode, 1), 1, MaxGPUsPerNode),
		between("nics_per_node", f.NICsPerNode, 1, MaxNICsPerNode),
		between("nvlinks_per_gpu", f.NVLinksPerGPU, 0, MaxNVLinks),
		between("time_scale", cmp.Or(f.TimeScale, 1), 1, MaxTimeScale),
	); err != nil {
		return err
	}
	if n := f.Nodes * f.NICsPerNode; n > MaxNICs {
		return Errorf("nodes", "%d nodes with %d NICs each are %d NICs: at most %d", f.Nodes, f.NICsPerNode, n, MaxNICs)
	}
	if f.CPU != "" && !slices.Contains(cpus, f.CPU) {
		return Errorf("cpu", "%q is not one of %s", f.CPU, strings.Join(cpus, ", "))
	}
	if f.NCCLView != "" && !slices.Contains(views, f.NCCLView) {
		return Errorf("nccl_view", "%q is not one of %s", f.NCCLView, strings.Join(views, ", "))
	}
	return cmp.Or(f.validateDatapath(), f.validateClock(), f.validateQuantiles())
}

// validateTexts checks the name, the description and the sources.
func (f *Fabric) validateTexts() error {
	if !validName(f.Name) {
		return Errorf("name",
			"%q is not a name: 1 to %d letters, digits, '-', '_' and '.', the first a letter or digit", f.Name, maxName)
	}
	if !printable(f.Description) {
		return Errorf("description", "must be printable UTF-8, at most %d bytes", maxText)
	}
	for i, s := range f.Sources {
		if !printable(s) {
			return Errorf(fmt.Sprintf("sources[%d]", i), "must be printable UTF-8, at most %d bytes", maxText)
		}
	}
	return nil
}

// validateQuantiles checks the jitter table.
func (f *Fabric) validateQuantiles() error {
	t := f.JitterTable
	if t == nil {
		return nil
	}
	if len(t) < MinJitterTable || len(t) > MaxJitterTable {
		return Errorf("jitter_table", "has %d quantiles: must have %d to %d", len(t), MinJitterTable, MaxJitterTable)
	}
	for i, q := range t {
		if math.IsNaN(q) || math.Abs(q) > maxQuantile {
			return Errorf("jitter_table", "quantile %v is out of range: must be -%d to %d", q, maxQuantile, maxQuantile)
		}
		if i > 0 && q < t[i-1] {
			return Errorf("jitter_table", "%v comes after %v: quantiles must not fall", q, t[i-1])
		}
	}
	return nil
}

// within puts path before the field of err, if err is an *Error.
func within(path string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Where: e.Where, Field: path + "." + e.Field, Err: e.Err}
	}
	return err
}

func validName(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// printable reports whether s can be shown, and written as YAML and read back.
func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) && r != '\n' {
			return false
		}
	}
	return utf8.ValidString(s) && len(s) <= maxText
}

// inRange checks that v is from low to high.
func inRange[T cmp.Ordered](v, low, high T) error {
	if v < low || v > high {
		return fmt.Errorf("%v is out of range: must be %v to %v", v, low, high)
	}
	return nil
}

// inRate checks a rate that may be unlimited.
func inRate(b units.Bandwidth) error {
	if b != units.Unlimited && (b < MinBandwidth || b > MaxBandwidth) {
		return fmt.Errorf("%v is out of range: must be %v to %v, or unlimited", b, MinBandwidth, MaxBandwidth)
	}
	return nil
}

// between is inRange with the name of the field.
func between[T cmp.Ordered](field string, v, low, high T) error {
	return at(field, inRange(v, low, high))
}

// at makes err an *Error about field. It returns nil if err is nil.
func at(field string, err error) error {
	if err != nil {
		return &Error{Field: field, Err: err}
	}
	return nil
}
