// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/shaper/kernel/launch"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// nodeGrace is the time that the programs of other nodes have to end after one has failed.
const nodeGrace = 10 * time.Second

// perNode starts a command once on every node of a job's fabric.
type perNode struct {
	job   *job.Job
	nodes int
	share launch.GPUShare
	// agents are the agents of torchrun, if the command does not say itself which node it is on; else nil.
	agents *agents
}

// newPerNode checks that args can be started on every node of the job's fabric.
func newPerNode(g *cli.Global, j *job.Job, args []string) (*perNode, error) {
	c := &j.Fabric.Config
	if !c.OnKernel() {
		return nil, cli.BadInput("--per-node needs nodes to run on: add --set datapath=kernel")
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		return nil, cli.BadInput("%s: no such command", args[0])
	}
	p := &perNode{job: j, nodes: c.Nodes, share: fabriccmd.ShareOf(j.Fabric)}
	if p.share.Warning != "" {
		g.Warn("%s", p.share.Warning)
	}
	if p.share.PerNode == 0 && strings.Contains(strings.Join(args, "\n"), "{gpus}") {
		return nil, cli.BadInput(
			"{gpus}: neither the fabric nor this host says how many GPUs a node has: give --set gpus_per_node=N")
	}
	return p, nil
}

// run runs args with env added to this process's environment on all nodes, passes signals on, and returns the exit
// status of the first that failed.
func (p *perNode) run(ctx context.Context, g *cli.Global, env, args []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the ddlemu command: %w", err)
	}
	uid, err := g.UID()
	if err != nil {
		return 0, err
	}
	if g.Getenv("PYTHONUNBUFFERED") == "" {
		env = append(env, "PYTHONUNBUFFERED=1") // Python buffers output to a pipe
	}
	var (
		mu      sync.Mutex
		streams []*launch.LineStream
		members []*launch.Member
	)
	for n := range p.nodes {
		name := fmt.Sprintf("node%d", n)
		own := append([]string{"--owner", fmt.Sprint(uid), "exec", "--fabric", p.job.Name(), name, "--"},
			fill(p.argsOf(args, n), n, p.nodes, p.share.PerNode)...)
		cmd := exec.Command(self, own...)
		cmd.Env = append(os.Environ(), env...)
		out := launch.LinePrinter{To: g.Stdout, Mu: &mu}.Stream(p.prefix(g, g.Stdout, n))
		errs := launch.LinePrinter{To: g.Stderr, Mu: &mu}.Stream(p.prefix(g, g.Stderr, n))
		cmd.Stdout, cmd.Stderr, streams = out, errs, append(streams, out, errs)
		members = append(members, &launch.Member{Name: name, Cmd: cmd})
	}
	status, err := runMembers(ctx, g, p.job, members)
	for _, s := range streams {
		err = cmp.Or(err, s.Close())
	}
	return status, err
}

// argsOf is the command line for node n: the command line of its agent if it is torchrun, which does not say which node
// it is on.
func (p *perNode) argsOf(args []string, n int) []string {
	if p.agents == nil {
		return args
	}
	return p.agents.args(n)
}

// runMembers runs the programs of a job on its nodes, passes signals on, and returns the exit status of the first that
// failed. Then it ends the others.
func runMembers(ctx context.Context, g *cli.Global, j *job.Job, members []*launch.Member) (int, error) {
	signals := job.Signals()
	defer signal.Stop(signals)
	if err := ctx.Err(); err != nil {
		return 0, err // a signal came before Signals
	}
	// If the reader of our output ends, the fabric must still be taken down.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	programs := &launch.Group{Members: members, Signals: signals, Grace: nodeGrace, OnInterrupt: j.Stop,
		Logf: func(format string, args ...any) { fmt.Fprintf(g.Stderr, "ddlemu: "+format+"\n", args...) }}
	job.AdoptOrphans()
	status, err := programs.Run()
	// Processes that remain on nodes of a stopped job or of a fabric that goes down are of no use.
	if programs.Stopped() || j.Private() {
		j.EndOrphans()
	}
	return status, err
}

// fill replaces {node}, {nodes}, {master} and {gpus} in args for node n.
func fill(args []string, n, nodes, perNode int) []string {
	r := strings.NewReplacer("{node}", fmt.Sprint(n), "{nodes}", fmt.Sprint(nodes), "{master}", "node0", "{gpus}",
		fmt.Sprint(perNode))
	var out []string
	for _, a := range args {
		out = append(out, r.Replace(a))
	}
	return out
}

// nodeColours are the colours of the nodes' names on a terminal: cyan, green, yellow, magenta, blue.
var nodeColours = []int{36, 32, 33, 35, 34}

// prefix is the beginning of each line of node n on w.
func (p *perNode) prefix(g *cli.Global, w io.Writer, n int) string {
	text := fmt.Sprintf("%-*s |", len(fmt.Sprintf("node%d", p.nodes-1)), fmt.Sprintf("node%d", n))
	if g.Getenv("NO_COLOR") == "" && cli.IsTerminal(w) {
		text = fmt.Sprintf("\x1b[%dm%s\x1b[0m", nodeColours[n%len(nodeColours)], text)
	}
	return text + " "
}
