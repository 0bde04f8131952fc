// SPDX-License-Identifier: Apache-2.0

// Command setup builds build/softcuda, the software CUDA for hosts without a GPU:
//
//	go run ./cuda/soft/setup --build build
//
// It downloads NCCL from Debian with the machine's apt, relinks it, and compiles the rest. The download is cached, and
// nothing is installed. Exit status: 0 on success, 1 if a part could not be built, 2 for a wrong flag.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cuda/soft/internal/softbuild"
)

func main() {
	o := softbuild.Options{Out: os.Stderr}
	flags := pflag.NewFlagSet("setup", pflag.ContinueOnError)
	flags.StringVar(&o.Build, "build", "build", "`folder` for softcuda/ and cache/")
	flags.StringVar(&o.Source, "source", "cuda/soft", "`folder` of the software CUDA's sources")
	flags.BoolVar(&o.Refresh, "refresh", false, "query Debian's archive although the cache has the packages")
	flags.BoolVar(&o.OneNCCL, "one-nccl", false,
		"leave out every NCCL but the default one, and those for PyTorch, unless an earlier build has made them")
	if err := flags.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := softbuild.Run(ctx, o); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(1)
	}
}
