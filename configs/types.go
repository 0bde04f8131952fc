// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Fabric describes an emulated cluster: nodes with NICs on switches. All
// times and rates are those of the emulated network, whatever the time scale.
type Fabric struct {
	Name        string   `yaml:"name"`
	Description string   `yaml:"description,omitempty"`
	Sources     []string `yaml:"sources,omitempty"` // where the figures come from

	Nodes       int `yaml:"nodes"`                   // 1 to MaxNodes
	GPUsPerNode int `yaml:"gpus_per_node,omitempty"` // ranks per node, 1 to MaxGPUs; 0 = the job's ranks / nodes
	NICsPerNode int `yaml:"nics_per_node"`           // 1 to MaxNICs

	// Link is each link from one NIC to one of another node on the same switch; its
	// rate is also that of the NICs' ports. Links between switches come on top of it. Links changes some of them, later ones over
	// earlier ones.
	Link  Link           `yaml:"link"`
	Links []LinkOverride `yaml:"links,omitempty"`

	Topology Topology `yaml:"topology,omitempty"`

	// NCCLView is by what NCCL decides; empty = FabricView.
	NCCLView string `yaml:"nccl_view,omitempty"`

	// GPUDirect says whether NICs reach the GPUs' memory by themselves; nil = with rdma.
	GPUDirect *bool `yaml:"gpudirect,omitempty"`

	// NVLinksPerGPU is how many NVLinks each GPU has to its node's NVSwitches, 0 to
	// MaxNVLinks. It is for software GPUs: real ones have what they have.
	NVLinksPerGPU int `yaml:"nvlinks_per_gpu,omitempty"`

	// NICOfGPU is the NIC nearest to each GPU of a node; empty = NIC gpu x NICs / GPUs.
	NICOfGPU []int `yaml:"nic_of_gpu,omitempty,flow"`

	Transport Transport `yaml:"transport"`
	Endpoint  Endpoint  `yaml:"endpoint"`
	Host      Host      `yaml:"host,omitempty"`

	// JitterTable is the distribution that jitter of kind "table" draws from:
	// quantiles at equal distances, in multiples of the jitter's value.
	JitterTable []float64 `yaml:"jitter_table,omitempty,flow"`

	Seed      uint64 `yaml:"seed"`                 // of all random draws
	TimeScale int    `yaml:"time_scale,omitempty"` // how many times slower to run, 1 to MaxTimeScale; 0 = for the command to choose

	Datapath string `yaml:"datapath,omitempty"` // Shm or Kernel; empty = Shm
	Shaper   string `yaml:"shaper,omitempty"`   // of the kernel datapath; empty = AutoShaper
	Subnet   string `yaml:"subnet,omitempty"`   // of the kernel datapath, an IPv4 /16; empty = one that is free
}

// Datapaths: how bytes really move.
const (
	Shm    = "shm"    // memory that the rank processes share
	Kernel = "kernel" // TCP between network namespaces
)

// What NCCL decides by: algorithm, protocol, channels.
const (
	FabricView = "fabric" // nodes with the fabric's NICs, each beside its GPUs
	HostView   = "host"   // this host, with the NICs anywhere
)

// Shapers of the kernel datapath.
const (
	AutoShaper  = "auto"  // the first of the others that this kernel can
	EDTShaper   = "edt"   // BPF sets departure times, fq keeps them
	NetemShaper = "netem" // htb and netem
	HTBShaper   = "htb"   // htb, with the wire for what delays
	WireShaper  = "wire"  // a process of ours carries every packet
)

// Link is a directed pipe from one NIC to another.
type Link struct {
	Bandwidth units.Bandwidth `yaml:"bandwidth"` // line rate; Unlimited = bytes take no time
	Latency   time.Duration   `yaml:"latency"`   // one way, NIC to NIC
	Jitter    Jitter          `yaml:"jitter"`
	Loss      Loss            `yaml:"loss"`
	Queue     Queue           `yaml:"queue"`
	ECN       units.Size      `yaml:"ecn,omitempty"` // what is ahead of a packet from which on it is marked; 0 = never

	// A packet carries MTU-Header bytes of payload and takes MTU+Framing bytes
	// of the line.
	MTU     int `yaml:"mtu"`
	Header  int `yaml:"header"`
	Framing int `yaml:"framing"`

	Up bool `yaml:"up"`
}

// PayloadRate is the highest rate of payload on l, in bytes per second; 0 if the
// bandwidth is unlimited.
func (l *Link) PayloadRate() float64 {
	return float64(l.Bandwidth) / 8 * float64(l.MTU-l.Header) / float64(l.MTU+l.Framing)
}

// LinkPatch is a change to a link: the fields that are not nil.
type LinkPatch struct {
	Bandwidth *units.Bandwidth `yaml:"bandwidth,omitempty"`
	Latency   *time.Duration   `yaml:"latency,omitempty"`
	Jitter    *Jitter          `yaml:"jitter,omitempty"`
	Loss      *Loss            `yaml:"loss,omitempty"`
	Queue     *Queue           `yaml:"queue,omitempty"`
	ECN       *units.Size      `yaml:"ecn,omitempty"`
	MTU       *int             `yaml:"mtu,omitempty"`
	Header    *int             `yaml:"header,omitempty"`
	Framing   *int             `yaml:"framing,omitempty"`
	Up        *bool            `yaml:"up,omitempty"`
}

// LinkOverride is a change to the links, and ports, that Match names as a
// Pattern does.
type LinkOverride struct {
	Match     string `yaml:"match"`
	LinkPatch `yaml:",inline"`
}

// Transport kinds.
const (
	TCP  = "tcp"  // a send completes when the send buffer has taken it
	RDMA = "rdma" // a send waits for the receiver and completes when acknowledged
)

// Recovery of rdma from loss.
const (
	GoBackN         = "go-back-n"
	SelectiveRepeat = "selective-repeat"
)

// Congestion control of tcp. None of them is the default: then nothing but the buffers
// bounds what is under way.
const (
	NoCongestion = "none"
	Reno         = "reno"
	Cubic        = "cubic"
)

// Transport is the protocol above the links. The fields of the other kind are
// zero.
type Transport struct {
	Kind string        `yaml:"kind"`
	RTO  time.Duration `yaml:"rto"` // a loss that no later packet reveals is found after this

	SendBuffer units.Size    `yaml:"send_buffer,omitempty"` // tcp: bytes taken from the sender and not yet acknowledged
	Window     units.Size    `yaml:"window,omitempty"`      // tcp: bytes sent and not yet read by the receiver
	Timeout    time.Duration `yaml:"timeout,omitempty"`     // tcp: a path down for this long is an error
	Congestion string        `yaml:"congestion,omitempty"`  // tcp: Reno or Cubic; empty = NoCongestion

	RetryCount int    `yaml:"retry_count,omitempty"` // rdma: a path down for this many RTOs is an error
	Recovery   string `yaml:"recovery,omitempty"`    // rdma
}

// Endpoint is what each message costs at a NIC, as in the LogGP model.
type Endpoint struct {
	Overhead time.Duration `yaml:"overhead"` // o, at each end
	Gap      time.Duration `yaml:"gap"`      // g, the least time between the starts of two messages
}

// Host is what each message costs the machines at its two ends, besides their NICs:
// handing it over and copying it, where the NIC cannot reach the GPU's memory. Each
// NIC has one worker in each direction, which takes whole messages one at a time.
type Host struct {
	PerMessage time.Duration   `yaml:"per_message"`
	Copy       units.Bandwidth `yaml:"copy"` // rate of the copies; Unlimited = they take no time
}

// Any says whether h costs anything.
func (h Host) Any() bool { return h != Host{} }

// Default is the fabric that a file without a base starts from. It is valid but
// for the link's bandwidth and latency, which the file has to give.
func Default() Fabric {
	return Fabric{
		Name: "fabric", Nodes: 2, NICsPerNode: 1,
		Link: Link{
			Jitter: Jitter{Kind: NoJitter}, Queue: Queue{Policy: Lossless, Bytes: units.MiB},
			MTU: 4096, Up: true,
		},
		Transport: DefaultTransport(RDMA),
		Seed:      1,
	}
}

// DefaultTransport is the transport of a fabric that says no more than its kind,
// TCP or RDMA.
//
// tcp has the largest buffers that Linux tunes itself to as it ships (tcp_wmem
// 4 MiB, tcp_rmem 6 MiB), its least retransmission time-out, and gives up as
// tcp_retries2 = 15 does. rdma has an InfiniBand queue pair's time-out code 14,
// 4.096 us x 2^14, and its largest retry count.
func DefaultTransport(kind string) Transport {
	if kind == TCP {
		return Transport{
			Kind: TCP, RTO: 200 * time.Millisecond,
			SendBuffer: 4 * units.MiB, Window: 6 * units.MiB, Timeout: 924600 * time.Millisecond,
		}
	}
	return Transport{Kind: RDMA, RTO: 4096 << 14, RetryCount: 7, Recovery: GoBackN}
}

// Apply changes the fields of l that p gives.
func (p *LinkPatch) Apply(l *Link) {
	set(&l.Bandwidth, p.Bandwidth)
	set(&l.Latency, p.Latency)
	set(&l.Jitter, p.Jitter)
	set(&l.Loss, p.Loss)
	set(&l.Queue, p.Queue)
	set(&l.ECN, p.ECN)
	set(&l.MTU, p.MTU)
	set(&l.Header, p.Header)
	set(&l.Framing, p.Framing)
	set(&l.Up, p.Up)
}

// Empty says whether p changes nothing.
func (p *LinkPatch) Empty() bool { return *p == LinkPatch{} }

func set[T any](dst *T, value *T) {
	if value != nil {
		*dst = *value
	}
}

// Shape changes all links of f, those in Links included.
func (f *Fabric) Shape(p LinkPatch) {
	f.shape(p)
	f.prune()
}

// prune drops the overrides that change nothing.
func (f *Fabric) prune() {
	f.Links = slices.DeleteFunc(f.Links, func(o LinkOverride) bool { return o.Empty() })
	if len(f.Links) == 0 {
		f.Links = nil
	}
}

// shape is Shape but for dropping the overrides that are left with nothing.
func (f *Fabric) shape(p LinkPatch) {
	p.Apply(&f.Link)
	for i := range f.Links {
		// Links between switches are not meant: theirs is the topology's trunk.
		if q, err := ParsePattern(f.Links[i].Match); err == nil && q.Trunk() {
			continue
		}
		f.Links[i].hide(&p)
	}
}

// hide drops from o what p also gives, so that p's values hold.
func (o *LinkPatch) hide(p *LinkPatch) {
	drop(&o.Bandwidth, p.Bandwidth)
	drop(&o.Latency, p.Latency)
	drop(&o.Jitter, p.Jitter)
	drop(&o.Loss, p.Loss)
	drop(&o.Queue, p.Queue)
	drop(&o.ECN, p.ECN)
	drop(&o.MTU, p.MTU)
	drop(&o.Header, p.Header)
	drop(&o.Framing, p.Framing)
	drop(&o.Up, p.Up)
}

func drop[T any](field **T, by *T) {
	if by != nil {
		*field = nil
	}
}
