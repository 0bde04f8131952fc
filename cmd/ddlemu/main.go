// SPDX-License-Identifier: Apache-2.0

// Command ddlemu makes one machine behave like a cluster: it brings up emulated
// fabrics, changes them live, runs jobs on them and judges whether this host
// really carried what was asked.
//
// Each command is one file with its options, its flags and a run function that
// tests call. There is no logic here that another package could have.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	g := &global{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	status := run(ctx, g, os.Args[1:])
	stop()
	os.Exit(status)
}

// run is ddlemu with these arguments: it reports the error and returns the exit
// status.
func run(ctx context.Context, g *global, args []string) int {
	root := newRootCommand(g)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil {
		err = interrupted(err)
	}
	report(g, args, err)
	return exitStatus(err)
}
