// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"os/user"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/nccl/topofile"
	"github.com/ddlemu/ddlemu/shaper/nccl/variables"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// CuMem is a variable that switches on what the software CUDA does not have: NCCL, which does not ask, would crash.
const CuMem = "NCCL_CUMEM_ENABLE"

// hostID is the variable by which NCCL knows which ranks are on one node.
const hostID = "NCCL_HOSTID"

// RanksOn is what ranks of b need on fabric c: NCCL of the version of --nccl, and what follows from the variables of
// the user and from fs, the flags of the fabric. With onlyModel all times are of the model. The caller closes the
// folder.
func (g *Global) RanksOn(c *configs.Fabric, b bench.Config, fs *pflag.FlagSet, nccl string, soft, onlyModel bool) (
	e emulate.Options, err error) {
	layout, libs, err := locate.Select(nccl, soft)
	if err != nil {
		return e, &InputError{Err: err}
	}
	if b.User, err = g.Credential(); err != nil {
		return e, err
	}
	view, err := g.ViewOf(c, fs)
	if err != nil {
		return e, err
	}
	dir, err := g.OpenDir(true)
	if err != nil {
		return e, err
	}
	e = emulate.Options{Dir: dir, Config: *c, Shared: g.Fabric, Bench: b, Libraries: libs, Layout: layout, Log: g.Stderr,
		Env: []string{ViewVariable(view)}}
	if err := g.applyVariables(&e, view, nccl, onlyModel); err != nil {
		dir.Close()
		return emulate.Options{}, err
	}
	return e, nil
}

// applyVariables sets what follows from the variables that the user set, for ranks that ddlemu starts itself. nccl is
// the value of --nccl. With onlyModel all times are of the model.
func (g *Global) applyVariables(e *emulate.Options, view, nccl string, onlyModel bool) error {
	asked := *e
	s := variables.Situation{
		Soft: e.Libraries.CUDA == locate.Soft, Timeless: onlyModel || asked.ChooseClock(), Starts: true, OwnRanks: true,
		Kernel: e.Config.OnKernel(), Fabric: g.Fabric,
	}
	gpus := 0
	if s.Soft {
		s.NCCL = cmp.Or(nccl, locate.DefaultSoftVersion)
		gpus = min(e.Bench.Ranks, topofile.MostGPUs)
	}
	set, err := g.variables(s.NCCL)
	if err != nil {
		return err
	}
	topology := TopologyOf(set, gpus)
	e.Set, e.Header.Unused = set, slices.Concat(topology.Notes(), variables.Notes(s, set))
	given := variables.Getenv(set)
	if s.Soft && given(CuMem) != "" {
		e.Env = append(e.Env, CuMem+"=0")
	}
	if given(hostID) != "" {
		e.Env = append(e.Env, hostID+"=ddlemu-") // the plugin completes it
	}
	e.Header.Decisions, e.Header.View = topology.Decisions(&e.Config, view, !s.Soft), topology.ownView(view)
	return nil
}

// variables are those that NCCL of a version finds set for the user of the ranks; "" for a version that is not known.
func (g *Global) variables(nccl string) ([]variables.Setting, error) {
	uid, err := g.UID()
	if err != nil {
		return nil, err
	}
	home := ""
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		home = u.HomeDir
	}
	var env []string
	if g.Environ != nil {
		env = g.Environ()
	}
	return variables.Read(nccl, env, home), nil
}

// TellVariables says which of the user's variables have no effect on a program of the user on a fabric c.
func (g *Global) TellVariables(c *configs.Fabric, nccl string, soft bool) ([]variables.Setting, error) {
	set, err := g.variables(nccl)
	if err != nil {
		return nil, err
	}
	g.Tell(variables.Notes(variables.Situation{NCCL: nccl, Soft: soft, Timeless: c.IsVirtual(), Starts: true,
		Kernel: c.OnKernel(), Fabric: g.Fabric}, set))
	return set, nil
}

// Tell prints notes to standard error, each once.
func (g *Global) Tell(notes []string) {
	for _, note := range notes {
		if !slices.Contains(g.told, note) {
			g.told = append(g.told, note)
			fmt.Fprintf(g.Stderr, "ddlemu: %s\n", note)
		}
	}
}
