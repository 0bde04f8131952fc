// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/bringup"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/kernel/enter"
	"github.com/ddlemu/ddlemu/shaper/state"
)

func newExecCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec [flags] NODE -- COMMAND [ARG...]",
		Short: "Run a program on a node of a kernel fabric",
		Long: `Run a program with the network, host name and /etc/hosts of an emulated node. The
fabric was brought up with --datapath kernel. Everything else, such as files and
GPUs, is this host's. The program runs as the fabric's owner and takes this
command's place, so that signals and exit status are its own.

` + exitHelp,
		Example: `  ddlemu up --profile eth1 --nodes 2 --datapath kernel
  ddlemu exec node1 -- iperf3 -s -D
  ddlemu exec node0 -- iperf3 -c node1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(commandOf(args)) == 0 {
				return badInput("exec needs a node and a command: ddlemu exec node0 -- COMMAND")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runExec(g, args[0], commandOf(args)) },
	}
	g.addFabricFlag(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// commandOf is the command in NODE -- COMMAND or NODE COMMAND.
func commandOf(args []string) []string {
	if len(args) > 1 && args[1] == "--" {
		return args[2:]
	}
	return args[min(1, len(args)):]
}

func runExec(g *global, node string, args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return badInput("%s: no such command", args[0])
	}
	up, err := g.open()
	if err != nil {
		return err
	}
	defer up.Close()
	o, extra, err := g.entry(up, node)
	if err != nil {
		return err
	}
	return enter.Exec(o, path, args, append(os.Environ(), extra...))
}

// entry is how to run something on a node of the fabric, and what a job needs in
// its environment there.
func (g *global) entry(up *opened, node string) (enter.Options, []string, error) {
	fab, err := up.File.Fabric()
	if err != nil {
		return enter.Options{}, nil, err
	}
	if err := onKernel(up.File, fab); err != nil {
		return enter.Options{}, nil, err
	}
	n, err := nodeOf(fab, node)
	if err != nil {
		return enter.Options{}, nil, err
	}
	if err := bringup.CheckPrivileges(); err != nil {
		return enter.Options{}, nil, err
	}
	p, err := daemon.Plan(up.Dir.Path, fab, up.File.Name())
	if err != nil {
		return enter.Options{}, nil, err
	}
	uid, err := g.uid()
	if err != nil {
		return enter.Options{}, nil, err
	}
	gid, err := groupOf(uid)
	if err != nil {
		return enter.Options{}, nil, err
	}
	env := append(g.environment(up), fmt.Sprintf("%s=%d", fabric.NodeEnv, n))
	return enter.Options{Node: &p.Nodes[n], Hosts: up.Dir.HostsPath(up.File.Name()), UID: uid, GID: gid}, env, nil
}

// onKernel refuses a fabric that has no nodes to run on.
func onKernel(file *state.File, fab *fabric.Fabric) error {
	if !fab.Config.OnKernel() {
		return badInput("fabric %s has no nodes to run on: bring one up with `ddlemu up --datapath kernel`", file.Name())
	}
	if !file.Served() {
		return badInput("the daemon of fabric %s is gone: remove what it left with `ddlemu gc`", file.Name())
	}
	return nil
}

// groupOf is the main group of a user.
func groupOf(uid int) (int, error) {
	if uid == os.Getuid() {
		return os.Getgid(), nil
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return 0, fmt.Errorf("find the group of user %d: %w", uid, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return 0, fmt.Errorf("group %q of user %d: %w", u.Gid, uid, err)
	}
	return gid, nil
}
