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
			return Errorf(fmt.Sprintf("links[%d]", i), "changes nothing: give it a bandwidth, latency, jitter, loss, queue, ecn, mtu, header, framing or up")
		}
	}
	return f.validate()
}

// validate is Validate but for links that change nothing.
func (f *Fabric) validate() error {
	if err := f.validateShape(); err != nil {
		return err
	}
	if err := f.Link.Validate(); err != nil {
		return within("link", err)
	}
	if err := f.validateTable("link.jitter", f.Link.Jitter); err != nil {
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
	if err := f.validateMarks(); err != nil {
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
	return f.validateModelled()
}

// validateModelled refuses what only the link model has where the kernel's TCP runs
// between network namespaces, and what the link model has not.
func (f *Fabric) validateModelled() error {
	if !f.OnKernel() {
		return f.validateLosses()
	}
	if !f.Topology.IsStar() {
		return Errorf("topology", "%s: the kernel datapath has the topology star only; take --datapath %s", f.Topology.Kind, Shm)
	}
	if f.Transport.Kind != TCP {
		return Errorf("transport", "%s, but the kernel datapath is real TCP: add --transport %s, or use --datapath %s", f.Transport.Kind, TCP, Shm)
	}
	if f.Transport.Congestion != "" {
		return Errorf("transport.congestion", "given for the datapath kernel: there it is the kernel's own cubic")
	}
	const (
		kernelECN  = "given for the datapath kernel: there half of a taildrop queue marks"
		kernelFair = "%v given for the datapath kernel: there a queue is lossless or taildrop"
	)
	if f.Link.ECN != 0 {
		return Errorf("link.ecn", kernelECN)
	}
	if f.Link.Queue.Policy == Fair {
		return Errorf("link.queue", kernelFair, f.Link.Queue)
	}
	for i := range f.Links {
		if mtu := f.Links[i].MTU; mtu != nil && *mtu != f.Link.MTU {
			return Errorf(fmt.Sprintf("links[%d].mtu", i), "%d, others have %d: the kernel datapath has one for all NICs", *mtu, f.Link.MTU)
		}
		if ecn := f.Links[i].ECN; ecn != nil && *ecn != 0 {
			return Errorf(fmt.Sprintf("links[%d].ecn", i), kernelECN)
		}
		if q := f.Links[i].Queue; q != nil && q.Policy == Fair {
			return Errorf(fmt.Sprintf("links[%d].queue", i), kernelFair, q)
		}
	}
	return nil
}

func (f *Fabric) validateLosses() error {
	if err := f.Link.Loss.ValidateModelled(); err != nil {
		return within("link", err)
	}
	for i := range f.Links {
		if l := f.Links[i].Loss; l != nil {
			if err := l.ValidateModelled(); err != nil {
				return within(fmt.Sprintf("links[%d]", i), err)
			}
		}
	}
	return nil
}

// ValidateModelled refuses a loss that the link model does not keep: of datapath shm, not of
// kernel. The error is an *Error of the field loss.
func (l Loss) ValidateModelled() error {
	if l.again() <= MaxLoss || l.GoodToBad != 0 && l.Mean() <= MaxBurstLoss {
		return nil
	}
	return Errorf("loss", "%v is too much: on datapath shm a link loses %v at most, %v in the long run if in bursts of dozens; %s", l, MaxLoss, MaxBurstLoss, downHelp)
}

const downHelp = "to let nothing through, take it down by ddlemu shape --down or, in the file, up: false"

// again is the factor by which it becomes less likely, with each time more, that a packet
// is lost so many times in a row: the larger eigenvalue of the chain's steps with a loss.
func (l Loss) again() float64 {
	good, bad := l.P*(1-l.GoodToBad), l.BadP*(1-l.BadToGood)
	return (good+bad)/2 + math.Hypot((good-bad)/2, math.Sqrt(l.P*l.GoodToBad*l.BadP*l.BadToGood))
}

func (f *Fabric) validateHost() error {
	h := f.Host
	if h.Any() && f.OnKernel() {
		return Errorf("host", "given for the datapath kernel: there hosts cost what they cost; only shm emulates it")
	}
	if err := between("host.per_message", h.PerMessage, 0, MaxLatency); err != nil {
		return err
	}
	if h.Copy != units.Unlimited && (h.Copy < MinBandwidth || h.Copy > MaxBandwidth) {
		return Errorf("host.copy", "%v is out of range: must be %v to %v, or unlimited", h.Copy, MinBandwidth, MaxBandwidth)
	}
	return nil
}

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
	if err := l.validateValues(); err != nil {
		return within(field, err)
	}
	return f.validateTable(field+".jitter", l.Jitter)
}

// validateMarks is Link.validateMarks of the ports and links that overrides change,
// after each of them.
func (f *Fabric) validateMarks() error {
	if !slices.ContainsFunc(f.Links, func(o LinkOverride) bool { return o.ECN != nil || o.Queue != nil }) {
		return nil
	}
	patterns := make([]Pattern, len(f.Links))
	for i := range f.Links {
		patterns[i], _ = ParsePattern(f.Links[i].Match) // validateOverride has read it
	}
	follow := func(matches func(Pattern) bool) error {
		l := f.Link
		for i := range f.Links {
			if !matches(patterns[i]) {
				continue
			}
			f.Links[i].Apply(&l)
			if err := l.validateMarks(); err != nil {
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
		if err := follow(matches); err != nil {
			return err
		}
	}
	return nil
}

// validateTrunkOverride checks a change to links between switches, and makes it in net,
// for those after it.
func (f *Fabric) validateTrunkOverride(field string, p Pattern, o *LinkOverride, net *Net) error {
	named := false
	for i, link := range net.Links {
		if !p.MatchTrunk(net.Switches[link.From], net.Switches[link.To]) {
			continue
		}
		named = true
		l := &net.Trunks[i]
		o.Apply(l)
		if err := l.Validate(); err != nil {
			return within(field, err)
		}
		if err := f.validateTable(field+".jitter", l.Jitter); err != nil {
			return err
		}
	}
	if !named {
		return Errorf(field+".match", "%q names no link between switches: there are %s", p, net.some())
	}
	return nil
}

// some names a few links between switches.
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

func (f *Fabric) validateTable(field string, j Jitter) error {
	if j.Kind == TableJitter && f.JitterTable == nil {
		return Errorf(field, "%q needs the fabric's jitter_table, which is missing", j)
	}
	return nil
}

// Validate checks every value of l. Fields in the error are as in a file, from
// the link on.
func (l *Link) Validate() error {
	if err := l.validateValues(); err != nil {
		return err
	}
	return l.validateMarks()
}

// validateValues is Validate but for what ECN and queue are to each other, of which
// several overrides may each give one.
func (l *Link) validateValues() error {
	if l.Bandwidth != units.Unlimited && (l.Bandwidth < MinBandwidth || l.Bandwidth > MaxBandwidth) {
		return Errorf("bandwidth", "%v is out of range: must be %v to %v, or unlimited", l.Bandwidth, MinBandwidth, MaxBandwidth)
	}
	if err := between("latency", l.Latency, 0, MaxLatency); err != nil {
		return err
	}
	if err := l.Jitter.validate(); err != nil {
		return err
	}
	if err := l.Loss.validate(); err != nil {
		return err
	}
	if err := between("mtu", l.MTU, MinMTU, MaxMTU); err != nil {
		return err
	}
	if l.Header < 0 || l.Header >= l.MTU {
		return Errorf("header", "%d is out of range: must be 0 to %d, below the mtu", l.Header, l.MTU-1)
	}
	if err := between("framing", l.Framing, 0, MaxMTU); err != nil {
		return err
	}
	if err := between("ecn", l.ECN, 0, MaxQueue); err != nil {
		return err
	}
	return l.Queue.validate(l.segment())
}

// validateMarks checks that l marks before one sender has filled its queue: a full one
// drops, or holds the sender back, so that marks would come too late for it.
func (l *Link) validateMarks() error {
	if l.ECN != 0 && l.Queue.Bytes != 0 && l.ECN >= l.Queue.Bytes {
		return Errorf("ecn", "%v is not below the queue's bound, %v: one sender fills it before a packet is marked", l.ECN, l.Queue)
	}
	return nil
}

func (j Jitter) validate() error {
	switch j.Kind {
	case NoJitter:
		if j.Value != 0 {
			return Errorf("jitter", "none with the value %v: must have none", j.Value)
		}
	case UniformJitter, NormalJitter, ParetoJitter, TableJitter:
		if j.Value <= 0 || j.Value > MaxLatency {
			return Errorf("jitter", "%v is out of range: its value must be 1ns to %v, or none", j, MaxLatency)
		}
	default:
		return Errorf("jitter", "%q is an unknown kind: %s", j.Kind, jitterHelp)
	}
	return nil
}

func (l Loss) validate() error {
	for _, p := range []float64{l.P, l.BadP, l.GoodToBad, l.BadToGood} {
		if !(p >= 0 && p <= 1) {
			return Errorf("loss", "%v is out of range: must be 0 to 1 (0%% to 100%%)", p)
		}
	}
	if l.GoodToBad == 0 && (l.BadP != 0 || l.BadToGood != 0) || l.GoodToBad != 0 && l.BadToGood == 0 {
		return Errorf("loss", "bursts must both begin and end: %s", lossHelp)
	}
	return nil
}

// segment is about the bytes that the link model moves at once: what the line
// carries in 100 us, at least one packet and at most 64 KiB.
func (l *Link) segment() units.Size {
	const most = 64 * units.KiB
	if l.Bandwidth == units.Unlimited {
		return most
	}
	return max(units.Size(l.MTU), min(most, units.Size(l.Bandwidth/8/10_000)))
}

// validate checks that q has room for least bytes.
func (q Queue) validate(least units.Size) error {
	switch q.Policy {
	case Lossless, Fair:
	case TailDrop:
		if q.Bytes == 0 {
			return Errorf("queue", "taildrop without a size never drops: %s", queueHelp)
		}
	default:
		return Errorf("queue", "%q is an unknown policy: %s", q.Policy, queueHelp)
	}
	if q.Bytes == 0 {
		return nil
	}
	if q.Bytes < least || q.Bytes > MaxQueue {
		return Errorf("queue", "%v is out of range: must be %v to %v, so that a segment fits", q, least, MaxQueue)
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

func between[T cmp.Ordered](field string, v, low, high T) error {
	if v < low || v > high {
		return Errorf(field, "%v is out of range: must be %v to %v", v, low, high)
	}
	return nil
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
