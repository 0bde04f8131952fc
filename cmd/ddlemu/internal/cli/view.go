// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl/topofile"
	"github.com/ddlemu/ddlemu/shaper/nccl/variables"
)

// ViewFlag is the flag that chooses the topology that NCCL is shown.
const ViewFlag = "nccl-view"

// softGPU is added to the name of the view on the software CUDA: the kind of GPU that it shows.
func softGPU(c *configs.Fabric) string {
	if c.GPU != nil {
		return ", as for " + c.GPU.Name
	}
	return ", as for A100"
}

// ViewOf is the topology by which NCCL decides. On a shared fabric, which --fabric names,
// the flag and the variable apply to the job and are not in c.
func (g *Global) ViewOf(c *configs.Fabric, fs *pflag.FlagSet) (string, error) {
	view := c.View()
	if g.Fabric == "" {
		return view, nil
	}
	if text := g.Getenv(configs.NCCLViewEnv); text != "" {
		view = text
	}
	if f := fs.Lookup(ViewFlag); f.Changed {
		view = f.Value.String()
	}
	if _, err := configs.ParseNCCLView(view); err != nil {
		return "", BadInput("%s: %w", configs.NCCLViewEnv, err)
	}
	return view, nil
}

// ViewVariable is the environment variable that gives a view to the ranks.
func ViewVariable(view string) string { return configs.NCCLViewEnv + "=" + view }

// UsersTopology is a topology file that the user gave to NCCL.
type UsersTopology struct {
	File    string // "" if there is none, or if no rank uses it
	Some    bool   // only some of the ranks use it
	Ignored string // a note that ranks do not use it, and why; "" if all use it
}

// Notes are those on a file that is not used.
func (t UsersTopology) Notes() []string {
	if t.Ignored == "" {
		return nil
	}
	return []string{t.Ignored}
}

// TopologyOf is the user's topology file, in the environment or in a file of NCCL. gpus is how many software GPUs the
// ranks use, 0 on real GPUs. The plugin decides in the same way in each rank.
func TopologyOf(set []variables.Setting, gpus int) UsersTopology {
	file := variables.Getenv(set)(configs.TopologyEnv)
	if file == "" || strings.HasPrefix(file, topofile.Private) {
		return UsersTopology{}
	}
	t := UsersTopology{File: file}
	used := 0
	for gpu := range gpus {
		why := topofile.Problem(file, topofile.Names{GPU: topofile.BusID(gpu), NIC: fabric.NICName})
		if why == "" {
			used++
		} else if t.Ignored == "" {
			t.Ignored = why
		}
	}
	t.Some = used > 0 && used < gpus
	switch {
	case t.Some:
		t.Ignored = fmt.Sprintf("%s=%s is not used by all ranks: %s", configs.TopologyEnv, file, t.Ignored)
	case t.Ignored != "":
		t.File, t.Ignored = "", fmt.Sprintf("%s=%s is not used: %s", configs.TopologyEnv, file, t.Ignored)
	}
	return t
}

// ownView is view, but "" if NCCL decides by a topology file of the user.
func (t UsersTopology) ownView(view string) string {
	if t.File != "" {
		return ""
	}
	return view
}

// Decisions names the topology by which NCCL decides, for the user. gpu is true on real
// GPUs.
func (t UsersTopology) Decisions(c *configs.Fabric, view string, gpu bool) string {
	text := view + " view"
	if !gpu {
		text += softGPU(c)
	}
	text += ", " + c.Shown()
	if t.File != "" {
		text = fmt.Sprintf("by the topology in %s=%s", configs.TopologyEnv, t.File)
	}
	if t.Some {
		text += ", in the ranks whose GPU it has"
	}
	if gpu && c.HasGPUDirect() && view == configs.FabricView {
		text += configs.WithoutLL128
	}
	return text
}
