// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
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
	MaxNodes       = 255
	MaxNICsPerNode = 32
	MaxNICs        = 256 // nodes x NICs per node: all links and ports are at most 2^16
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

	// MaxLoss is the most that a link of datapath shm may lose. Its model sends a packet 64 times
	// at most (MaxAttempts in shaper/link), and the last time it arrives: 0.72^64 is 10^-9. Of
	// bursts longer than that one packet comes through for 64 lost: where MaxBurstLoss are lost in
	// the long run, these are 1 % of what arrives.
	MaxLoss      = 0.72
	MaxBurstLoss = 0.39

	MinJitterTable = 2
	MaxJitterTable = 4096
	maxQuantile    = 1000
	maxText        = 4096 // bytes of a description or source
	maxName        = 64   // bytes
)

// Validate checks every value of f against its limits and the others. The error
// is an *Error that names the field.
func (f *Fabric) Validate() error {
	for i := range f.Links {
		if f.Links[i].Empty() {
			return Errorf(fmt.Sprintf("links[%d]", i), "changes nothing: give it a %s", linkKeys())
		}
	}
	return f.validate()
}

// validate is Validate but for links that change nothing.
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
	if err := f.validateGPUs(); err != nil {
		return err
	}
	for i := range f.Links {
		if err := f.validateOverride(fmt.Sprintf("links[%d]", i), &f.Links[i], net); err != nil {
			return err
		}
	}
	if err := f.validateECN(); err != nil {
		return err
	}
	if err := f.Transport.validate(); err != nil {
		return within("transport", err)
	}
	if err := between("endpoint.overhead", f.Endpoint.Overhead, 0, MaxLatency); err != nil {
		return err
	}
	if err := between("endpoint.gap", f.Endpoint.Gap, 0, MaxLatency); err != nil {
		return err
	}
	if err := f.validateHost(); err != nil {
		return err
	}
	return f.validateKernel()
}

func (f *Fabric) validateHost() error {
	h := f.Host
	if h.Any() && f.OnKernel() {
		return Errorf("host", "given for the datapath kernel: there hosts cost what they cost; only shm emulates it")
	}
	if err := between("host.per_message", h.PerMessage, 0, MaxLatency); err != nil {
		return err
	}
	return at("host.copy", inRate(h.Copy))
}

// validateGPUs checks which NIC is nearest to each GPU.
func (f *Fabric) validateGPUs() error {
	if f.NICOfGPU == nil {
		return nil
	}
	if len(f.NICOfGPU) != f.GPUsPerNode {
		return Errorf("nic_of_gpu", "has %d NICs: must have one for each of gpus_per_node, which is %d", len(f.NICOfGPU), f.GPUsPerNode)
	}
	for i, n := range f.NICOfGPU {
		if n < 0 || n >= f.NICsPerNode {
			return Errorf(fmt.Sprintf("nic_of_gpu[%d]", i), "%d: each node has NIC 0 to %d", n, f.NICsPerNode-1)
		}
	}
	return nil
}

// validateShape checks what is not about links or transport.
func (f *Fabric) validateShape() error {
	if !validName(f.Name) {
		return Errorf("name", "%q is not a name: 1 to %d letters, digits, '-', '_' and '.', the first a letter or digit", f.Name, maxName)
	}
	if !printable(f.Description) {
		return Errorf("description", "must be printable UTF-8, at most %d bytes", maxText)
	}
	for i, s := range f.Sources {
		if !printable(s) {
			return Errorf(fmt.Sprintf("sources[%d]", i), "must be printable UTF-8, at most %d bytes", maxText)
		}
	}
	if err := between("nodes", f.Nodes, 1, MaxNodes); err != nil {
		return err
	}
	if f.GPUsPerNode != 0 {
		if err := between("gpus_per_node", f.GPUsPerNode, 1, MaxGPUsPerNode); err != nil {
			return err
		}
	}
	if err := between("nics_per_node", f.NICsPerNode, 1, MaxNICsPerNode); err != nil {
		return err
	}
	if err := between("nvlinks_per_gpu", f.NVLinksPerGPU, 0, MaxNVLinks); err != nil {
		return err
	}
	if n := f.Nodes * f.NICsPerNode; n > MaxNICs {
		return Errorf("nodes", "%d nodes with %d NICs each are %d NICs: at most %d", f.Nodes, f.NICsPerNode, n, MaxNICs)
	}
	if f.TimeScale != 0 {
		if err := between("time_scale", f.TimeScale, 1, MaxTimeScale); err != nil {
			return err
		}
	}
	if f.NCCLView != "" && !slices.Contains(views, f.NCCLView) {
		return Errorf("nccl_view", "%q is not one of %s", f.NCCLView, strings.Join(views, ", "))
	}
	if err := f.validateDatapath(); err != nil {
		return err
	}
	return f.validateQuantiles()
}

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

func (t *Transport) validate() error {
	if err := between("rto", t.RTO, MinRTO, MaxRTO); err != nil {
		return err
	}
	switch t.Kind {
	case TCP:
		if t.RetryCount != 0 || t.Recovery != "" {
			return Errorf("kind", "tcp has no retry_count and no recovery")
		}
		if err := between("send_buffer", t.SendBuffer, MinBuffer, MaxBuffer); err != nil {
			return err
		}
		if err := between("window", t.Window, MinBuffer, MaxBuffer); err != nil {
			return err
		}
		if !slices.Contains([]string{"", Reno, Cubic}, t.Congestion) {
			return Errorf("congestion", "%q is not one of %s, %s, %s", t.Congestion, NoCongestion, Reno, Cubic)
		}
		return between("timeout", t.Timeout, t.RTO, MaxTimeout)
	case RDMA:
		if t.SendBuffer != 0 || t.Window != 0 || t.Timeout != 0 || t.Congestion != "" {
			return Errorf("kind", "rdma has no send_buffer, no window, no timeout and no congestion")
		}
		if t.Recovery != GoBackN && t.Recovery != SelectiveRepeat {
			return Errorf("recovery", "%q is not one of %s, %s", t.Recovery, GoBackN, SelectiveRepeat)
		}
		return between("retry_count", t.RetryCount, 1, MaxRetryCount)
	}
	return Errorf("kind", "%q is not one of %s, %s", t.Kind, TCP, RDMA)
}

// within puts a field's path before the one in err.
func within(path string, err error) error {
	if e, ok := err.(*Error); ok {
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

// printable says whether s can be shown, and printed to YAML and read back.
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

// at makes err an *Error about field; nil if err is.
func at(field string, err error) error {
	if err != nil {
		return &Error{Field: field, Err: err}
	}
	return nil
}
