// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Fabric describes an emulated cluster: nodes with NICs on switches. All
// times and rates are of the emulated network, whatever the time scale.
type Fabric struct {
	Name        string   `yaml:"name"`
	Description string   `yaml:"description,omitempty"`
	Sources     []string `yaml:"sources,omitempty"` // where the figures come from
	// FittedTo are the rows of tables that the figures were fitted to.
	FittedTo []FittedRows `yaml:"fitted_to,omitempty,flow"`

	Nodes       int `yaml:"nodes"`                   // 1 to MaxNodes
	GPUsPerNode int `yaml:"gpus_per_node,omitempty"` // ranks per node, 1 to MaxGPUs; 0 = the job's ranks / nodes
	NICsPerNode int `yaml:"nics_per_node"`           // 1 to MaxNICs

	// Node is the hardware of each node.
	Node Node `yaml:"node,omitempty"`

	// Link is each link from one NIC to a NIC of another node. Its rate is also the rate of
	// the NICs' ports. Links between switches add to it. Links changes some links; later
	// entries replace earlier ones.
	Link  Link           `yaml:"link"`
	Links []LinkOverride `yaml:"links,omitempty"`

	Topology Topology `yaml:"topology,omitempty"`

	// Faults change links at times of the virtual clock.
	Faults []Fault `yaml:"faults,omitempty"`

	// NCCL is what NCCL is shown of the network.
	NCCL NCCL `yaml:"nccl,omitempty"`

	// NCCLView is the topology by which NCCL decides; empty = FabricView.
	NCCLView string `yaml:"nccl_view,omitempty"`

	// GPU is the kind of GPU that the software CUDA shows to programs and NCCL; nil = GPUs of compute capability 8.0 of
	// no kind.
	GPU *GPU `yaml:"gpu,omitempty"`

	// NodeTime says that kernels and the links between the GPUs of a node cost the time of their kind, if that is
	// known. Calculated times have it, and emulated runs with TimedNodes.
	NodeTime bool `yaml:"node_time,omitempty"`
	// TimedNodes says that the fabric itself has it: its hops, ports and transport. A command says so, of an emulated
	// run; the description of a fabric that is up, and of one that was recorded, has it too.
	TimedNodes bool `yaml:"timed_nodes,omitempty"`
	// ThreadOfNode says that one host thread makes the calls of all ranks of a node, for NodeTime.
	ThreadOfNode bool `yaml:"-"`

	// NVLink is how NVLinks connect the GPUs of a node, if not as the kind's usually do: SwitchedNVLink, MeshNVLink or
	// NoNVLink.
	NVLink string `yaml:"nvlink,omitempty"`

	// NVLinkDomain is how many of the job's GPUs NVLinks connect, of several nodes if it is more than a node has; 0 = as
	// many as the kind's usually do.
	NVLinkDomain int `yaml:"nvlink_domain,omitempty"`

	// CPU is the vendor of the nodes' CPUs, AMD or Intel, or HostCPU; empty = the vendor of the kind of GPU, else
	// AMD. It applies to software GPUs only:
	// NCCL finds real ones on this machine's CPUs.
	CPU string `yaml:"cpu,omitempty"`

	// GPUDirect reports whether NICs access the GPUs' memory directly; nil = with rdma.
	GPUDirect *bool `yaml:"gpudirect,omitempty"`

	// NVLinksPerGPU is how many NVLinks each GPU has to its node's NVSwitches, 0 to
	// MaxNVLinks; with a kind of GPU, 0 = as many as that has. It applies to software GPUs only.
	NVLinksPerGPU int `yaml:"nvlinks_per_gpu,omitempty"`

	// NICOfGPU is the NIC nearest to each GPU of a node; empty = NIC gpu x NICs / GPUs.
	NICOfGPU []int `yaml:"nic_of_gpu,omitempty,flow"`

	Transport Transport `yaml:"transport"`
	Endpoint  Endpoint  `yaml:"endpoint"`
	NICTime   *NICTime  `yaml:"nic_time,omitempty"` // with the time of nodes
	Host      Host      `yaml:"host,omitempty"`

	// JitterTable is the distribution that jitter of kind "table" draws from: quantiles
	// at evenly spaced probabilities, in multiples of the jitter's value.
	JitterTable []float64 `yaml:"jitter_table,omitempty,flow"`

	Seed uint64 `yaml:"seed"` // of all random draws
	// how many times slower to run, 1 to MaxTimeScale; 0 = the command decides
	TimeScale int `yaml:"time_scale,omitempty"`

	Clock string `yaml:"clock,omitempty"` // RealClock or VirtualClock; empty = RealClock, unless the command decides

	Datapath string `yaml:"datapath,omitempty"` // Shm or Kernel; empty = Shm
	Shaper   string `yaml:"shaper,omitempty"`   // of the kernel datapath; empty = AutoShaper
	Subnet   string `yaml:"subnet,omitempty"`   // of the kernel datapath, an IPv4 /16; empty = a free one
}

// Datapaths: how bytes really move.
const (
	Shm    = "shm"    // memory that the rank processes share
	Kernel = "kernel" // TCP between network namespaces
)

// Topologies by which NCCL decides on algorithm, protocol and channels.
const (
	FabricView = "fabric" // nodes with the fabric's NICs, each near its GPUs
	HostView   = "host"   // this host, with the NICs at no particular place
)

// CPUs of the nodes.
const (
	AMD     = "amd"
	Intel   = "intel"
	HostCPU = "host" // this machine's
)

// Shapers of the kernel datapath.
const (
	AutoShaper  = "auto"  // the first of the others that this kernel supports
	EDTShaper   = "edt"   // BPF sets departure times, fq obeys them
	NetemShaper = "netem" // htb and netem
	HTBShaper   = "htb"   // htb alone: no latency
	WireShaper  = "wire"  // a process of ddlemu forwards every packet
)

// Endpoint is what each message costs at a NIC, as in the LogGP model.
type Endpoint struct {
	Overhead time.Duration `yaml:"overhead"` // o, at each end
	Gap      time.Duration `yaml:"gap"`      // g, the least time between the starts of two messages
}

// Host is what each message costs the two hosts, besides their NICs: posting it and
// copying it, where the NIC cannot access the GPU's memory. Each NIC has one worker in
// each direction, which handles whole messages one at a time.
type Host struct {
	PerMessage time.Duration   `yaml:"per_message"`
	Copy       units.Bandwidth `yaml:"copy"` // rate of the copies; Unlimited = they take no time
}

// Any reports whether h costs anything.
func (h Host) Any() bool { return h != Host{} }

// Default is the fabric that a file without a base starts from. The file must give the
// link's bandwidth and latency.
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
