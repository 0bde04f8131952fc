// SPDX-License-Identifier: Apache-2.0

package configs

import (
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
