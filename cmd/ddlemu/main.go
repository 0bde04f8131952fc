// SPDX-License-Identifier: Apache-2.0

// Command ddlemu makes one machine behave like a cluster: it brings up emulated fabrics, changes them while they are
// up, runs jobs on them and judges whether this host really carried the fabric.
//
// The commands are in internal, in a package for each thing that users do; internal/cli is what they share. Logic that
// another program could use is in packages below shaper.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/shaper/kernel/launch"
)

func main() {
	g := &cli.Global{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ}
	os.Exit(run(context.Background(), g, arguments(os.Args)))
}

// arguments returns the arguments of ddlemu. If the program is called ddlemu-ssh or ssh, by a link, they are the
// arguments of `ddlemu ssh`, for launchers that accept only the path of a program.
func arguments(args []string) []string {
	switch filepath.Base(args[0]) {
	case "ddlemu-ssh", fabriccmd.SSHCommand:
		return append([]string{fabriccmd.SSHCommand}, args[1:]...)
	}
	return args[1:]
}

// run runs ddlemu with these arguments, reports the error and returns the exit status.
func run(ctx context.Context, g *cli.Global, args []string) int {
	root := newRootCommand(g)
	root.SetArgs(args)
	out := &checkedWriter{to: g.Stdout}
	stop := func() {}
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		// A job and top write to the output directly, because it may be a terminal.
		writesItself := cmd.Name() == "run" || cmd.Name() == "top"
		// What becomes another program leaves signals alone: one that is on its way through Go's runtime would be lost.
		if cmd.Name() != "exec" && cmd.Name() != fabriccmd.SSHCommand {
			read, noReader := context.WithCancelCause(ctx)
			notified, ignore := signal.NotifyContext(read, launch.Interrupts()...)
			context.AfterFunc(notified, ignore) // a second signal ends this process at once
			ctx, stop = notified, func() { ignore(); noReader(nil) }
			if !writesItself {
				signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write fails instead
			}
			out.broken = func() { noReader(errNoReader) }
			cmd.SetContext(ctx)
		}
		if !writesItself {
			g.Stdout = out
		}
	}
	err := root.ExecuteContext(ctx)
	defer stop()
	switch {
	case errors.Is(context.Cause(ctx), errNoReader) || errors.Is(out.err, syscall.EPIPE):
		return cli.ExitNoReader
	case err != nil && ctx.Err() != nil:
		err = cli.Interrupted(err)
	case err == nil && out.err != nil:
		// An incomplete output must be an error. It is not wrapped, because a full disk is not bad input here.
		err = fmt.Errorf("write the output: %v", out.err) //nolint:errorlint // as above
	}
	cli.PrintError(g, args, err)
	return cli.ExitStatus(err)
}

// errNoReader ends a command whose output nobody reads any more, as in `ddlemu bench … | head -1`. Otherwise the
// runtime would end this process there, and a fabric that it has made would stay up.
var errNoReader = errors.New("nobody reads the output any more")

// checkedWriter stores the first error of a writer, so that callers need not check each write.
type checkedWriter struct {
	to     io.Writer
	err    error
	broken func() // called when nobody reads any more; nil for nothing
}

// Unwrap returns the writer below.
func (w *checkedWriter) Unwrap() io.Writer { return w.to }

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if w.err == nil {
		w.err = err
	}
	if w.broken != nil && errors.Is(err, syscall.EPIPE) {
		w.broken()
	}
	return n, err
}
