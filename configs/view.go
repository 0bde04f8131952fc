// SPDX-License-Identifier: Apache-2.0

package configs

import "cmp"

// Variables that select the topology by which NCCL decides.
const (
	NCCLViewEnv = "DDLEMU_NCCL_VIEW" // the view for one job on a shared fabric
	TopologyEnv = "NCCL_TOPO_FILE"   // NCCL's: a file with the topology of the machine
)

// WithoutLL128 is added to the name of the view in messages, where NCCL decides by a
// fabric with GPUDirect but runs on real GPUs.
const WithoutLL128 = ", but without LL128, which the real fabric would use: it is not safe on a GPU while data goes " +
	"through host memory"

var views = []string{FabricView, HostView}

// ParseNCCLView reads FabricView or HostView.
func ParseNCCLView(s string) (string, error) { return oneOf(s, views) }

var cpus = []string{AMD, Intel, HostCPU}

// ParseCPU reads AMD, Intel or HostCPU.
func ParseCPU(s string) (string, error) { return oneOf(s, cpus) }

// NodeCPU is the vendor of the nodes' CPUs, "" if they are no x86. Without a kind of GPU it is AMD unless the fabric
// says another: the software GPU is then an A100, which most systems have with CPUs of AMD, such as NVIDIA's DGX A100.
// The host's would make results depend on it.
func (f *Fabric) NodeCPU() string {
	if f.CPU == "" && f.GPU != nil {
		return f.GPU.CPU.Vendor
	}
	return cmp.Or(f.CPU, AMD)
}

// Shown says in a few words what NCCL is shown of the network, such as "net ofi-rdma with a latency of 75us".
func (f *Fabric) Shown() string {
	text := "net " + f.NCCLNet()
	switch l := f.NCCL.Latency; {
	case l.OfLink:
		text += " with the links' latency"
	case l.Time != 0:
		text += " with a latency of " + l.String()
	}
	return text
}

// View is the topology by which NCCL decides, FabricView or HostView.
func (f *Fabric) View() string { return cmp.Or(f.NCCLView, FabricView) }
