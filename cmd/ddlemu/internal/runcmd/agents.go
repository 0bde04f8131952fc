// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/launch"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// agents start torchrun on each node of a job's fabric, as a user of a cluster does.
type agents struct {
	job    *job.Job
	torch  *torchrun
	nodes  int
	master string // the address of node 0
	port   int
	share  launch.GPUShare
}

// threadsEnv is how many threads PyTorch computes with. torchrun sets it to 1 if it starts several ranks, so that they
// do not share cores; here the agents do not know of each other.
const threadsEnv = "OMP_NUM_THREADS"

// newAgents returns the agents that args stand for. It is nil if args are not torchrun, if they say themselves how many
// agents there are, or if the fabric has one node.
func newAgents(g *cli.Global, j *job.Job, args []string) (*agents, error) {
	c := &j.Fabric.Config
	t := parseTorchrun(args, g.Getenv)
	if t == nil || t.explicit || c.Nodes < 2 {
		return nil, nil
	}
	if gpus := c.GPUsPerNode; gpus > 0 && t.ranks() > gpus {
		return nil, cli.BadInput("--nproc-per-node %d: a node of the fabric has %s: give --set gpus_per_node=%[1]d, or fewer ranks",
			t.ranks(), units.Count(gpus, "GPU"))
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return &agents{job: j, torch: t, nodes: c.Nodes, master: "127.0.0.1", port: port, share: fabriccmd.ShareOf(j.Fabric)},
		nil
}

// line says where the ranks will be, "" if only the command knows: without agents, or if torchrun counts them.
func (a *agents) line() string {
	if a == nil {
		return ""
	}
	perNode := a.torch.ranks()
	if perNode == 0 {
		return ""
	}
	nodes := map[int]int{}
	for rank := range a.nodes * perNode {
		nodes[rank] = rank / perNode
	}
	return job.Ranks(nodes)
}

// args is the command line of the agent on node n.
func (a *agents) args(n int) []string { return a.torch.agent(n, a.nodes, a.master, a.port) }

// run runs the agents with env added to this process's environment, and returns the exit status of the first that
// failed. user is nil for this process's user.
func (a *agents) run(ctx context.Context, g *cli.Global, env []string, user *syscall.Credential) (int, error) {
	if g.Getenv(threadsEnv) == "" {
		env = append(env, threadsEnv+"=1")
	}
	var mu sync.Mutex
	out, errs := together(g.Stdout, &mu), together(g.Stderr, &mu)
	var members []*launch.Member
	for n := range a.nodes {
		args := a.args(n)
		cmd := exec.Command(args[0], args[1:]...)
		own := []string{fmt.Sprintf("%s=%d", fabric.NodeEnv, n)}
		if gpus, ok := a.share.Visible(n); ok {
			own = append(own, launch.VisibleGPUsEnv+"="+gpus)
		}
		cmd.Env = slices.Concat(os.Environ(), env, own)
		cmd.Stdout, cmd.Stderr = out, errs
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
		members = append(members, &launch.Member{Name: fmt.Sprintf("torchrun on node%d", n), Cmd: cmd})
	}
	return runMembers(ctx, g, a.job, members)
}

// together is w for several programs at once: a file as it is, so that a terminal stays one.
func together(w io.Writer, mu *sync.Mutex) io.Writer {
	if f, ok := w.(*os.File); ok {
		return f
	}
	return &lockedWriter{to: w, mu: mu}
}

type lockedWriter struct {
	to io.Writer
	mu *sync.Mutex
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// freePort returns a port of this host that is free, and that the kernel gives to no socket which names none before
// the first agent listens there: it is below those that the kernel gives.
func freePort() (int, error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, fmt.Errorf("choose a port for torchrun: %w", err)
	}
	first, err := strconv.Atoi(strings.Fields(string(b) + " x")[0])
	if err != nil || first < 2048 {
		return 0, fmt.Errorf("choose a port for torchrun: the kernel's ports begin at %d: give --nnodes, --node-rank and "+
			"--master-port", first)
	}
	const tries = 100
	for range tries {
		port := first/2 + rand.IntN(first/2)
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("choose a port for torchrun: none of %d ports below %d is free: give --master-port", tries, first)
}
