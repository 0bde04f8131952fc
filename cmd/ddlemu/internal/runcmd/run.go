// SPDX-License-Identifier: Apache-2.0

// Package runcmd has the commands that run a job on a fabric or say how long one takes: run, bench, record, replay,
// expect, validate and verify.
package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/tracecmd"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl/topofile"
	"github.com/ddlemu/ddlemu/shaper/nccl/variables"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// runOptions are the flags of run.
type runOptions struct {
	fabriccmd.SourceOptions
	NCCL         string
	TorchAlias   string
	Soft, Strict bool
	CUDA         bool
	PerNode      bool
	Trace        string
	Stall        time.Duration
	ExpectExit   []string // ranks
	junit        junitFile
	clock        clockFlags
	topology     cli.UsersTopology
	madeTrace    string // the folder of the ledgers; "" if none was made
	noRank       error  // why no rank took part, if none did
	inForce      configs.InForce
}

// AddFlags adds the flags to fs.
func (o *runOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.SourceOptions.AddFlags(fs)
	fs.StringVar(&g.Fabric, "fabric", "", "`name` of a fabric that is up, to run on it instead of on a new one")
	fs.BoolVar(&o.Soft, "soft-cuda", false, "put the software CUDA and its NCCL at the beginning of LD_LIBRARY_PATH")
	fs.BoolVar(&o.CUDA, "cuda", false, "--soft-cuda, and run a PyTorch for CUDA on it, with its operators on the CPU")
	fs.StringVar(&o.NCCL, "nccl", "",
		"`version` of NCCL for the software CUDA and for PyTorch's backend ddlemu (2.22 or 2.29)")
	fs.StringVar(&o.TorchAlias, "torch-alias", "",
		"PyTorch backends, of nccl and gloo, whose `names` stand for the backend ddlemu, on CPU tensors")
	fs.BoolVar(&o.PerNode, "per-node", false, "start the command once on every node of a kernel fabric")
	fs.BoolVar(&o.Strict, "strict", false, "exit with status 3 if the command succeeds but the verdict is INVALID")
	fs.StringVar(&o.Trace, "trace", "", traceUsage)
	addStallFlag(fs, &o.Stall)
	addExpectExitFlag(fs, &o.ExpectExit)
	o.junit.addFlag(fs, "thing that can fail")
	g.AddVerboseFlag(fs)
	o.clock.addFlags(fs)
}

// NewRunCommand is `ddlemu run`.
func NewRunCommand(g *cli.Global) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a job on an emulated fabric",
		Long: `Bring up a fabric for one job, run the command with an environment in which NCCL uses it, take the
fabric down and print the verdict. RANK and other variables of the launcher, or DDLEMU_NODE, give
each rank's node. torchrun is started once for each node, unless it has --nnodes, --node-rank or
--standalone. With --per-node (kernel datapath) any command is, and its arguments may have {node},
{nodes}, {master} and {gpus}. The time scale is 1 unless it is set; it does not slow compute down.

Exit status: that of the command; 1 if it cannot start or a rank of --expect-exit lives; 2 for bad
input; 3 if no rank took part, the fabric was taken down or (--strict) it is INVALID; 130 if interrupted.
Page: docs/jobs.md`,
		Example: `  ddlemu run --profile eth10 --nodes 2 -- torchrun --nproc-per-node 2 train.py
  ddlemu run --profile eth10 --nodes 2 --set datapath=kernel --per-node -- \
    torchrun --nnodes {nodes} --node-rank {node} --master-addr {master} --nproc-per-node 1 train.py
  ddlemu run --profile ndr400 --lat 10us --soft-cuda -- ./my-nccl-program`,
		Args: cli.AtLeast(1, "run needs a command: ddlemu run --profile eth10 -- COMMAND"),
		RunE: func(cmd *cobra.Command, args []string) error { return runRun(cmd.Context(), g, &o, args) },
	}
	o.AddFlags(g, cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	return cli.Ruled(cmd, slices.Concat(stallRules, []cli.Rule{
		cli.Excludes("torch-alias", "cuda", "the alias is for CPU tensors")})...)
}

// The errors of a command that succeeded without the fabric. Nothing of what it measured is emulated.
var (
	errNoRank = errors.New("no rank took part")
	errNoNCCL = fmt.Errorf("%w: no process of the command made a communicator of NCCL with the plugin", errNoRank)
)

func runRun(ctx context.Context, g *cli.Global, o *runOptions, args []string) error {
	if o.CUDA {
		o.Soft, o.NCCL = true, cmp.Or(o.NCCL, locate.CUDATorchVersion)
	}
	if err := onlyFabric(g.Fabric, o.Flags); err != nil {
		return err
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		return cli.BadInput("%s: no such command", args[0])
	}
	if err := host.CheckDescriptors(0); err != nil {
		return err
	}
	exits, err := expectedExits(o.ExpectExit, g.Getenv)
	if err != nil {
		return err
	}
	if err := o.junit.begin(); err != nil {
		return err
	}
	v, status, err := o.run(ctx, g, exits, args)
	if o.junit.path != "" {
		err = errors.Join(err, o.junit.write(runSuite(args, status, &o.inForce, &v, err)))
	}
	if err != nil {
		return err
	}
	missed := missedExits(v.Exits)
	switch {
	case status != 0:
		return &cli.ExitError{Code: status, Err: missed}
	case v.NoRank && missed == nil:
		return &cli.ExitError{Code: cli.ExitInvalid, Err: o.noRank}
	case o.Strict && !v.Valid, v.TakenDown:
		return &cli.ExitError{Code: cli.ExitInvalid, Err: missed}
	}
	return missed
}

// run runs args on a fabric and prints the verdict. exits are the ranks whose exit is expected; status is the exit
// status of args.
func (o *runOptions) run(ctx context.Context, g *cli.Global, exits []int, args []string) (v verdict.Verdict, status int,
	err error) {
	settings, err := o.clock.settings(g.Getenv)
	if err != nil {
		return v, 0, err
	}
	env, err := o.libraries(g)
	if err != nil {
		return v, 0, err
	}
	gloo, err := listenForGloo()
	if err != nil {
		return v, 0, err
	}
	defer gloo.close()
	env = append(env, gloo.variable())
	j, err := o.start(ctx, g)
	if err != nil {
		return v, 0, err
	}
	if !o.isSoft() {
		o.inForce.GPUTime = "" // a GPU takes its own time
	}
	j.ExpectExits(exits)
	view, status, err := o.command(ctx, g, j, append(env, o.clock.variables()...), args)
	v = j.Verdict()
	if v.NoRank {
		o.noRank = gloo.noRank()
	}
	judgeStatus(&v, status, exits)
	if text := j.LinkChanges(); text != "" {
		v.Notes = append(v.Notes, text)
	}
	err = errors.Join(err, j.Close())
	trimTrace(g, o.madeTrace)
	if err != nil {
		return v, status, err
	}
	if len(v.Links) > 0 {
		o.printHeader(g, &j.Fabric.Config, view, settings, v.AllBytes)
	}
	cli.PrintVerdict(g.Stderr, v, g.More())
	if err := writeOutcome(o.Trace, v); err != nil {
		return v, status, err
	}
	if status != 0 {
		tracecmd.ExplainFailure(g, o.Trace)
		if len(v.Links) == 0 { // no rank took part
			explainTorchrun(ctx, g, args)
		}
	}
	return v, status, nil
}

// judgeStatus adds that the command failed, if nothing else tells it: ranks that end by an exception of their own leave
// the fabric as those that are done. exits are the ranks whose exit is expected.
func judgeStatus(v *verdict.Verdict, status int, exits []int) {
	if status != 0 && v.Valid && len(exits) == 0 {
		v.Add(verdict.Finding{Cause: verdict.CauseJob,
			Text: fmt.Sprintf("the command ended with exit status %d: the figures are of what it did before", status)})
	}
}

// printHeader prints what the figures of the links are of. allBytes: no rank loaded the plugin.
func (o *runOptions) printHeader(g *cli.Global, c *configs.Fabric, view string, settings configs.ClockSettings,
	allBytes bool,
) {
	fmt.Fprintf(g.Stderr, "fabric: %s\n", o.inForce.Text)
	if allBytes {
		fmt.Fprintln(g.Stderr, "traffic: all packets on the fabric: no rank loaded the plugin")
		return
	}
	fmt.Fprintf(g.Stderr, "decisions: %s\n", o.topology.Decisions(c, view, !o.isSoft()))
	if o.isSoft() {
		fmt.Fprintf(g.Stderr, "GPU time: %s\n", o.inForce.GPUTime)
	}
	if c.IsVirtual() {
		printClockNote(g.Stderr, settings)
	}
}

// isSoft says whether the program's NCCL runs on the software CUDA: without a GPU that is the only one.
func (o *runOptions) isSoft() bool { return o.Soft || !locate.HasGPU() }

// softVersion is the version of the software CUDA's NCCL, "" if the program may have another one.
func (o *runOptions) softVersion() string {
	if !o.Soft {
		return ""
	}
	return cmp.Or(o.NCCL, locate.DefaultSoftVersion)
}

// softGPUs is how many GPUs of the software CUDA the program uses, 0 on real GPUs.
func (o *runOptions) softGPUs(c *configs.Fabric) int {
	if !o.isSoft() {
		return 0
	}
	return min(c.Nodes*max(c.GPUsPerNode, 1), topofile.MostGPUs)
}

// noNVLink is the note that several GPUs of a node have no NVLinks between them, if that matters.
func (o *runOptions) noNVLink(c *configs.Fabric, view string) []string {
	if !o.isSoft() || c.GPUsPerNode == 1 || o.topology.File != "" {
		return nil
	}
	if note := emulate.NoNVLink(c, view); note != "" {
		return []string{note}
	}
	return nil
}

// command runs args on the job's fabric. It returns the exit status, and the view by which NCCL decides.
func (o *runOptions) command(ctx context.Context, g *cli.Global, j *job.Job, env, args []string) (view string,
	status int, err error) {
	if err := o.clock.check(j.Fabric); err != nil {
		return "", 0, err
	}
	if c := &j.Fabric.Config; c.TimedNodes {
		if err := c.CheckTimedNodes(o.isSoft()); err != nil {
			return "", 0, cli.BadInput("node time: %w; add --soft-cuda", err)
		}
	}
	trace, err := makeTrace(o.Trace, &j.Fabric.Config)
	if err != nil {
		return "", 0, err
	}
	o.madeTrace = trace
	if trace != "" {
		env = append(env, ledger.Env+"="+trace)
	}
	defer watchStalls(g, trace, o.Stall)()
	torch, err := newAgents(g, j, args)
	if err != nil {
		return "", 0, err
	}
	tell := func(line string) { fmt.Fprintf(g.Stderr, "ddlemu: %s\n", line) }
	announced := torch.line()
	if announced != "" {
		tell(announced)
	}
	var nodes *perNode
	if o.PerNode {
		if nodes, err = newPerNode(g, j, args); err != nil {
			return "", 0, err
		}
		if nodes.agents = torch; torch != nil {
			torch.master = "node0"
		}
	}
	g.WarnOneNode(j.Fabric)
	g.WarnUncontrolled(j.Fabric, j.Fabric.All())
	if err := g.WarnTooMuch(ctx, j.Fabric); err != nil {
		return "", 0, err
	}
	if k := j.Fabric.TimeScale(); k != 1 {
		g.Warn("time scale %d: the job's compute is not slowed, so only the figures of links are meaningful", k)
	}
	if view, err = g.ViewOf(&j.Fabric.Config, o.Flags); err != nil {
		return "", 0, err
	}
	set, err := g.TellVariables(&j.Fabric.Config, o.softVersion(), o.isSoft())
	if err != nil {
		return "", 0, err
	}
	o.topology = cli.TopologyOf(set, o.softGPUs(&j.Fabric.Config))
	g.Tell(append(o.topology.Notes(), o.noNVLink(&j.Fabric.Config, view)...))
	env = append(env, o.deviceCount(&j.Fabric.Config, args, g.Getenv)...)
	if o.isSoft() && variables.Getenv(set)(cli.CuMem) != "" {
		env = append(env, cli.CuMem+"=0")
	}
	if j.Fabric.Config.IsVirtual() {
		env = append(env, yieldingMPI(g.Getenv)...)
	}
	env = append(append(env, cli.ViewVariable(view)), j.Env()...)
	stopGuard, err := j.StartGuard()
	if err != nil {
		return "", 0, err
	}
	defer stopGuard()
	defer j.StopWith(ctx)()
	stuck := j.EndIfStuck(func(why string) { fmt.Fprintf(g.Stderr, "ddlemu: %s: ending the job\n", why) })
	defer func() {
		if stuck() && status == 0 {
			status = cli.ExitFailure
		}
	}()
	defer j.TellRanks(announced, tell)()
	if nodes != nil {
		status, err = nodes.run(ctx, g, env, args)
		return view, status, err
	}
	user, err := g.Credential()
	if err != nil {
		return "", 0, err
	}
	if torch != nil {
		status, err = torch.run(ctx, g, env, user)
		return view, status, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = g.Stdin, g.Stdout, g.Stderr
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	status, err = j.Run(ctx, cmd)
	return view, status, err
}

// start brings up a fabric for the job, or opens the shared one.
func (o *runOptions) start(ctx context.Context, g *cli.Global) (*job.Job, error) {
	if g.Fabric != "" {
		dir, err := g.OpenDir(false)
		if err != nil {
			return nil, err
		}
		j, err := job.Share(dir, g.Fabric)
		if err != nil {
			return nil, err
		}
		if o.inForce, err = cli.InForceOf(j.Fabric); err != nil {
			return nil, errors.Join(err, j.Close())
		}
		return j, nil
	}
	fab, inForce, err := cli.LoadTimed(g, o.Profile, o.File, o.isSoft(), o.Flags)
	if err != nil {
		return nil, err
	}
	o.inForce = inForce
	if _, err := g.SettleScale(ctx, o.Flags, fab); err != nil {
		return nil, err
	}
	dir, err := g.OpenDir(true)
	if err != nil {
		return nil, err
	}
	return job.Start(ctx, dir, fab, "run")
}

// onlyFabric refuses flags that describe a fabric if --fabric names one.
func onlyFabric(name string, fs *pflag.FlagSet) error {
	if name == "" {
		return nil
	}
	refuse := func(given string) error {
		return cli.BadInput("--fabric %s names a fabric that is up: leave out %s, or change it with `ddlemu shape`", name,
			given)
	}
	for _, flag := range []string{"profile", "file"} {
		if fs.Changed(flag) {
			return refuse("--" + flag)
		}
	}
	for _, s := range configs.Settings() {
		if s.Flag != cli.ViewFlag && fs.Changed(s.Flag) { // the view is the job's, too
			return refuse(s.Spelling())
		}
	}
	for _, set := range flags.Others(fs) {
		return refuse("--" + configs.SetFlag + " " + set.Key)
	}
	return nil
}

// libraries returns the environment by which NCCL finds the plugin, and the software CUDA with --soft-cuda; and PyTorch
// its backend ddlemu, unless there is a GPU.
func (o *runOptions) libraries(g *cli.Global) ([]string, error) {
	layout, err := locate.Find()
	if err == nil {
		err = layout.CheckPlugin()
	}
	if err != nil {
		return nil, &cli.InputError{Err: err}
	}
	gpu := locate.HasGPU() && !o.Soft
	switch {
	case gpu && o.NCCL != "":
		return nil, cli.BadInput("--nccl %s chooses a version for the software CUDA: add --soft-cuda", o.NCCL)
	case o.NCCL != "" && !slices.Contains(locate.SoftVersions, o.NCCL):
		return nil, cli.BadInput("--nccl %s: there are %s", o.NCCL, strings.Join(locate.SoftVersions, " and "))
	}
	var libs locate.Libraries
	if o.Soft {
		if libs, err = layout.Soft(o.NCCL); err != nil {
			return nil, &cli.InputError{Err: err}
		}
	}
	torch, err := o.torch(g, layout, libs, gpu)
	if err != nil {
		return nil, err
	}
	env := append(append(locate.NetEnv(g.Getenv, true), libs.Env(layout)), torch...)
	if o.Trace != "" {
		env = append(env, injection(g, layout)...)
	}
	return env, nil
}

// softGPUsEnv is how many GPUs a process of the software CUDA sees.
const softGPUsEnv = "DDLEMU_SOFT_GPUS"

// deviceCount returns the variable by which PyTorch counts the GPUs of a node of the fabric, not those of all nodes. It
// is empty if their number is not known.
func (o *runOptions) deviceCount(c *configs.Fabric, args []string, getenv func(string) string) []string {
	if !o.CUDA || getenv(softGPUsEnv) != "" {
		return nil
	}
	gpus := c.GPUsPerNode
	if t := parseTorchrun(args, getenv); t != nil && gpus == 0 {
		gpus = t.ranks()
	}
	if gpus == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s=%d", softGPUsEnv, gpus)}
}

// torch returns the environment by which PyTorch finds the backend ddlemu, or with --cuda the software CUDA. With a GPU
// it needs none.
func (o *runOptions) torch(g *cli.Global, layout locate.Layout, libs locate.Libraries, gpu bool) ([]string, error) {
	if o.CUDA {
		env, err := layout.CUDATorchEnv(libs, g.Getenv)
		if err != nil {
			return nil, &cli.InputError{Err: err}
		}
		return env, nil
	}
	for _, name := range strings.FieldsFunc(o.TorchAlias, func(r rune) bool { return r == ',' }) {
		if name != "nccl" && name != "gloo" {
			return nil, cli.BadInput("--torch-alias %s: %q is not nccl or gloo", o.TorchAlias, name)
		}
	}
	if gpu && o.TorchAlias != "" {
		return nil, cli.BadInput(
			"--torch-alias is for CPU tensors on the software CUDA: add --soft-cuda, or leave it out to use " +
				"PyTorch's own backends on the GPU")
	}
	if gpu {
		return nil, nil
	}
	env, err := layout.TorchEnv(o.NCCL, g.Getenv)
	switch {
	case err != nil:
		return nil, &cli.InputError{Err: err}
	case o.TorchAlias == "":
		return env, nil
	case env == nil:
		return nil, cli.BadInput("--torch-alias: the backend for PyTorch is not in %s: run `make build`", layout.Torch)
	}
	return append(env, "DDLEMU_TORCH_ALIAS="+o.TorchAlias), nil
}
