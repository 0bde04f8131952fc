// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
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
