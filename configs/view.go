// SPDX-License-Identifier: Apache-2.0

package configs

import "cmp"

// Variables that say what NCCL decides by.
const (
	NCCLViewEnv = "DDLEMU_NCCL_VIEW" // a job's own view of a fabric that is shared
	TopologyEnv = "NCCL_TOPO_FILE"   // NCCL's: a topology file that it takes for the machine
)

// WithoutLL128 follows what NCCL decides by where it is the view of a fabric with
// GPUDirect, on real GPUs.
const WithoutLL128 = ", but without LL128, which the real fabric would use: it is not safe on a GPU while data goes through host memory"

var views = []string{FabricView, HostView}

// ParseNCCLView reads FabricView or HostView.
func ParseNCCLView(s string) (string, error) { return oneOf(s, views) }

// View is by what NCCL decides, FabricView or HostView.
func (f *Fabric) View() string { return cmp.Or(f.NCCLView, FabricView) }
