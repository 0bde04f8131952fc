// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/kernel/launch"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// NewExecCommand is `ddlemu exec`.
func NewExecCommand(g *cli.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec [flags] NODE -- COMMAND [ARG...]",
		Short: "Run a program on a node of a kernel fabric",
		Long: cli.Long("docs/kernel.md", `
Run a program with the network, host name and /etc/hosts of an emulated node. The fabric must
have been brought up with --set datapath=kernel. Files, GPUs and everything else are this host's.
The program runs as the fabric's owner and replaces this command: it gets all signals, and the
exit status is its own.`),
		Example: `  ddlemu up --profile eth1 --nodes 2 --set datapath=kernel
  ddlemu exec node1 -- iperf3 -s -1 -D
  ddlemu exec node0 -- iperf3 -c node1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(commandOf(args)) == 0 {
				return cli.BadInput("exec needs a node and a command: ddlemu exec node0 -- COMMAND")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return runExec(g, args[0], commandOf(args))
		},
	}
	g.AddFabricFlag(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// commandOf returns the command in NODE -- COMMAND or NODE COMMAND.
func commandOf(args []string) []string {
	if len(args) > 1 && args[1] == "--" {
		return args[2:]
	}
	return args[min(1, len(args)):]
}

func runExec(g *cli.Global, node string, args []string) error {
	if err := launch.EndBySignals(); err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return cli.BadInput("%s: no such command", args[0])
	}
	up, err := g.OpenKernel()
	if err != nil {
		return err
	}
	defer up.Close()
	e, err := entryOf(g, up, node)
	if err != nil {
		return err
	}
	uid, err := g.UID()
	if err != nil {
		return err
	}
	who, err := launch.AccountByID(uid)
	if err != nil {
		return err
	}
	return launch.Exec(e.options(who), path, args, e.environment(os.Environ(), who))
}

// entry has the settings to run a program on a node.
type entry struct {
	node  *netns.Node
	hosts string   // the node's /etc/hosts
	owner int      // of the fabric
	env   []string // variables that a job needs on the node
}

// entryOf returns the entry to a node, which is given by name or address.
func entryOf(g *cli.Global, up *cli.Opened, node string) (*entry, error) {
	fab, err := fabricfile.Read(up.File)
	if err != nil {
		return nil, err
	}
	if err := OnKernel(g, up.File, fab); err != nil {
		return nil, err
	}
	p, err := daemon.Plan(up.Dir.Path, fab, up.File.Name())
	if err != nil {
		return nil, err
	}
	n, err := nodeOf(p, node)
	if err != nil {
		return nil, err
	}
	if err := daemon.CheckPrivileges(); err != nil {
		return nil, err
	}
	e := &entry{node: &p.Nodes[n], hosts: up.Dir.HostsPath(up.File.Name()), owner: up.Dir.UID()}
	e.env = append(g.Environment(up), cli.DirEnv+"="+up.Dir.Path, fmt.Sprintf("%s=%d", fabric.NodeEnv, n))
	share := ShareOf(fab)
	if visible, ok := share.Visible(n); ok {
		e.env = append(e.env, launch.VisibleGPUsEnv+"="+visible, launch.HostGPUsEnv+"="+strings.Join(share.Host, ","))
	}
	return e, nil
}

// ShareOf assigns this host's GPUs to the fabric's nodes.
func ShareOf(fab *fabric.Fabric) launch.GPUShare {
	return launch.ShareGPUs(fab.Config.GPUsPerNode, fab.Config.Nodes, launch.HostGPUs(os.LookupEnv))
}

func (e *entry) options(who launch.Account) launch.ExecOptions {
	return launch.ExecOptions{Node: e.node, Hosts: e.hosts, UID: who.UID, GID: who.GID, Groups: who.Groups}
}

// environment returns base with the variables that a program of user who needs on the node.
func (e *entry) environment(base []string, who launch.Account) []string {
	extra := append(e.env, launch.InterfaceEnvironment(base, e.node)...)
	// ddlemu on the node must find the same fabrics as here.
	if who.UID == 0 && e.owner != 0 {
		extra = append(extra, fmt.Sprintf("%s=%d", cli.SudoEnv, e.owner))
	} else {
		extra = append(extra, cli.SudoEnv+"=")
	}
	return launch.MergeEnvironment(base, extra)
}

// OnKernel refuses a fabric whose nodes are not network namespaces.
func OnKernel(g *cli.Global, file *state.File, fab *fabric.Fabric) error {
	if !fab.Config.OnKernel() {
		const name = "kernel"
		return cli.BadInput(
			"fabric %s has the datapath shm, on which no program can be run on a node: bring one up with `%s --nodes "+
				"%d --set datapath=kernel`, and give --fabric %s", file.Name(), g.UpCommand(name), fab.Config.Nodes, name)
	}
	if !file.Served() {
		return DaemonGone(file.Name())
	}
	return nil
}

// DaemonGone is the error for a fabric whose daemon was killed.
func DaemonGone(name string) error {
	return cli.BadInput("the daemon of fabric %s is gone: remove what it left with `ddlemu gc`", name)
}
