// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
)

const viewFlag = "nccl-view"

// viewOf is by what NCCL decides on c, which the command has its own fabric of, or
// which is shared: then the flag and the variable are the job's and not in c.
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

// viewVariable hands a view on to the ranks.
func viewVariable(view string) string { return configs.NCCLViewEnv + "=" + view }

// ownView is view, "" where NCCL decides by a topology file of the user's.
func (g *global) ownView(view string) string {
	if g.Getenv(configs.TopologyEnv) != "" {
		return ""
	}
	return view
}

// decisions says by what NCCL decides on c, real GPUs or not, in a word or two.
func (g *global) decisions(c *configs.Fabric, view string, gpu bool) string {
	text := view + " view"
	if file := g.Getenv(configs.TopologyEnv); file != "" {
		text = fmt.Sprintf("by the topology in %s=%s", configs.TopologyEnv, file)
	}
	if gpu && c.HasGPUDirect() && view == configs.FabricView {
		text += configs.WithoutLL128
	}
	return text
}
