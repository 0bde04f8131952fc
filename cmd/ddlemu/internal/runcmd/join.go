// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/join"
)

// NewJoinCommand is `ddlemu join`.
func NewJoinCommand(g *cli.Global) *cobra.Command {
	var node int
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "join",
		Short: "Be a node of a bench that runs in another container",
		Long: `Be a node of a bench that runs in another container of this host, with --join. The containers
share only the folder of fabrics (DDLEMU_DIR) and a network over which NCCL sets up its
communicator. This command waits for the bench, starts the ranks of its node, and ends with it.

Exit status: 0; 1 if the bench failed; 2 for bad input or no bench within --wait; 130 if interrupted.
Page: docs/containers.md`,
		Example: `  ddlemu bench allreduce --profile ndr400 --ranks 2 --join 5m    # in the first container
  ddlemu join --node 1                                           # in the second one`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runJoin(cmd.Context(), g, node, wait) },
	}
	cmd.Flags().IntVar(&node, "node", 0, "`number` of the node, from 1 on: the bench itself is node 0")
	cmd.Flags().DurationVar(&wait, "wait", 5*time.Minute, "`time` to wait for the bench")
	return cli.Ruled(cmd, cli.Required("node", "the bench itself is node 0"), cli.Least("node", 1))
}

func runJoin(ctx context.Context, g *cli.Global, node int, wait time.Duration) error {
	layout, err := locate.Find()
	if err != nil {
		return err
	}
	dir, err := g.OpenDir(true)
	if err != nil {
		return err
	}
	defer dir.Close()
	member := join.Member{Dir: dir.Path, Node: node, Version: cli.Version(), Rank: layout.Rank, Wait: wait}
	return orInput(member.Serve(ctx))
}

// orInput makes it bad input if nobody came.
func orInput(err error) error {
	if errors.Is(err, join.ErrLate) {
		return &cli.InputError{Err: err}
	}
	return err
}

// addJoinFlag adds the flag for nodes in other containers.
func addJoinFlag(fs *pflag.FlagSet, wait *time.Duration) {
	fs.DurationVar(wait, "join", 0,
		"nodes other than node 0 are containers with ddlemu join: wait for them for this `time`")
}

// awaitNodes waits for the nodes that are other containers, if there are any. The caller calls done with the error with
// which the bench ends.
func (o *BenchOptions) awaitNodes(ctx context.Context, e *emulate.Options) (done func(error), err error) {
	if !o.Flags.Changed("join") {
		return func(error) {}, nil
	}
	last := e.Nodes(&e.Config) - 1
	switch {
	case e.Config.OnKernel():
		return nil, cli.BadInput("--join: on the kernel datapath ddlemu makes the nodes itself")
	case last == 0:
		return nil, cli.BadInput("--join: all ranks are on node 0: give --nodes 2 or more")
	}
	nodes, err := join.Await(ctx, e.Dir, last, cli.Version(), o.Join, func(missing string) {
		e.Progress("waiting for "+missing+" (ddlemu join)", -1)
	})
	if err != nil {
		return nil, orInput(err)
	}
	e.Joined = nodes.Starter
	return nodes.Close, nil
}
