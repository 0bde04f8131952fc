// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// traceUsage is the usage of --trace.
const traceUsage = "`folder` for a ledger of each rank: what crossed the links, see `ddlemu messages`"

// makeTrace makes the folder for the ledgers of a job on fabric c and returns its absolute path, "" if none is wanted.
func makeTrace(dir string, c *configs.Fabric) (string, error) {
	if dir == "" {
		return "", nil
	}
	if c.OnKernel() {
		return "", cli.BadInput(
			"--trace: on the kernel datapath the ranks write no ledger: leave it out, or use datapath shm")
	}
	path, err := ledger.MakeFolder(dir)
	if err != nil {
		return "", cli.BadInput("--trace: %w", err)
	}
	return path, nil
}

// injection is the variable by which the plugin gets the ranges of a program, by NVTX. It says if the user's is kept.
func injection(g *cli.Global, layout locate.Layout) []string {
	env, users := layout.Injection(g.Getenv)
	if users != "" {
		g.Warn("%s=%s is kept, so the program's NVTX ranges are not recorded: unset it to record them",
			locate.InjectionEnv, users)
	}
	return env
}
