// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
)

const viewFlag = "nccl-view"

// softGPU is added to the name of the view on the software CUDA, which shows NCCL one kind of GPU.
const softGPU = ", as for A100"

// viewOf is the topology by which NCCL decides. On a shared fabric, which --fabric names,
// the flag and the variable apply to the job and are not in c.
func (g *global) viewOf(c *configs.Fabric, fs *pflag.FlagSet) (string, error) {
	view := c.View()
	if g.Fabric == "" {
		return view, nil
	}
	if text := g.Getenv(configs.NCCLViewEnv); text != "" {
		view = text
	}
	if f := fs.Lookup(viewFlag); f.Changed {
		view = f.Value.String()
	}
	if _, err := configs.ParseNCCLView(view); err != nil {
		return "", badInput("%s: %w", configs.NCCLViewEnv, err)
	}
	return view, nil
}

// viewVariable is the environment variable that gives a view to the ranks.
func viewVariable(view string) string { return configs.NCCLViewEnv + "=" + view }

// ownView is view, but "" if NCCL decides by a topology file of the user.
func (g *global) ownView(view string) string {
	if g.Getenv(configs.TopologyEnv) != "" {
		return ""
	}
	return view
}

// decisions names the topology by which NCCL decides, for the user. gpu is true on real
// GPUs.
func (g *global) decisions(c *configs.Fabric, view string, gpu bool) string {
	text := view + " view"
	if !gpu {
		text += softGPU
	}
	text += ", " + c.Shown()
	if file := g.Getenv(configs.TopologyEnv); file != "" {
		text = fmt.Sprintf("by the topology in %s=%s", configs.TopologyEnv, file)
	}
	if gpu && c.HasGPUDirect() && view == configs.FabricView {
		text += configs.WithoutLL128
	}
	return text
}
