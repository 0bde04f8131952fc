// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/workloadcmd"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/record"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// recordOptions are the flags of record: the flags of run, and how the workload is made.
type recordOptions struct {
	runOptions
	workloadcmd.OutputOptions
	From string
	read record.Options
}

// AddFlags adds the flags to fs.
func (o *recordOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.runOptions.AddFlags(g, fs)
	o.OutputOptions.AddFlags(fs)
	fs.Lookup("output").Usage = "`file` to write (needed with a command; with --from, default: standard output)"
	fs.StringVar(&o.From, "from", "", "`folder` of a job that was run with --trace, instead of a command")
	fs.BoolVar(&o.read.NoWaits, "no-waits", false, "no rank waits for a call to end before it makes the next one")
	fs.StringVar(&o.read.Step, "step", "",
		"`name` of the NVTX ranges that are the steps, or auto: find the steps (default: one step)")
}

// NewRecordCommand is `ddlemu record`.
func NewRecordCommand(g *cli.Global) *cobra.Command {
	var o recordOptions
	cmd := &cobra.Command{
		Use:   "record [flags] -- COMMAND [ARG...]",
		Short: "Run a job and write what it did as a workload",
		Long: `Run a command as "ddlemu run" does, and write the calls of NCCL that its ranks made, and the
time between them, as a workload. With --from, read the ledgers of a job that ran with --trace.

A ledger does not say whether a rank waited for a call. By default a rank waited for each call
that had ended before its next one; with --no-waits, for none. The head of the file says more.

Exit status: that of the command; 1 if it cannot start, no rank took part or ledgers are incomplete;
2 for bad input; 3 with --strict if the verdict is INVALID; 130 if interrupted.
Page: docs/replay.md`,
		Example: `  ddlemu record -o job.jsonl --profile ndr400 --clock virtual -- torchrun --nproc-per-node 2 train.py
  ddlemu record -o job.jsonl --from trace`,
		RunE: func(cmd *cobra.Command, args []string) error { return runRecord(cmd.Context(), g, &o, args) },
	}
	o.AddFlags(g, cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	const printed = "what the command prints goes to standard output"
	return cli.Ruled(cmd, slices.Concat(stallRules, []cli.Rule{
		cli.Required("COMMAND from", "there is no job"), cli.AtMostOne("COMMAND from", ""),
		cli.Needs("!from", "output", printed), cli.Excludes("COMMAND", "output=-", printed),
	})...)
}

func runRecord(ctx context.Context, g *cli.Global, o *recordOptions, args []string) error {
	if err := o.Check(); err != nil {
		return err
	}
	folder := o.From
	if folder == "" {
		if o.Trace == "" {
			dir, lock, err := record.MakeFolder()
			if err != nil {
				return err
			}
			defer lock.Close()
			defer os.RemoveAll(dir)
			o.Trace = dir
		}
		folder = o.Trace
		// convert says what it means for the workload that no rank took part.
		if err := runRun(ctx, g, &o.runOptions, args); err != nil && !errors.Is(err, errNoRank) {
			return err
		}
		o.noteNCCL(g.Stderr, g.Getenv)
	}
	return o.convert(g, folder)
}

// noteNCCL notes the variables of NCCL that the job had from this process. Those of --nccl-env come after them.
func (o *recordOptions) noteNCCL(warn io.Writer, getenv func(string) string) {
	var had []string
	for _, name := range workload.NCCLVariables() {
		value := getenv(name)
		if value == "" {
			continue
		}
		text := name + "=" + value
		if err := (&workload.Head{}).SetNCCL(text); err != nil {
			fmt.Fprintf(warn, "ddlemu: a variable is not in the workload: %v\n", err)
			continue
		}
		had = append(had, text)
	}
	o.NCCLEnv = append(had, o.NCCLEnv...)
}

// convert writes the workload of the ledgers in a folder.
func (o *recordOptions) convert(g *cli.Global, folder string) error {
	trace, err := messages.Load(folder)
	if errors.Is(o.noRank, errGloo) {
		return o.noRank
	}
	if errors.Is(err, messages.ErrNoLedger) && o.From == "" {
		return errors.New("no rank took part, so there is nothing to record")
	}
	if errors.Is(err, os.ErrNotExist) {
		return cli.BadInput("--from %s: there is no such folder", folder)
	}
	if err != nil {
		return fmt.Errorf("read the ledgers in %s: %w", folder, err)
	}
	fab, err := replay.LoadFabric(folder, trace.Ranks[0].TimeScale)
	switch {
	case errors.Is(err, ledger.ErrNoFabric): // a job recorded on its own network
	case err != nil:
		return err
	case fab.Config.TimedNodes:
		o.read.HostCall = fab.NodeTime().Call * trace.Ranks[0].TimeScale
	}
	w, err := record.Workload(trace, o.read)
	if err != nil {
		return fmt.Errorf("make a workload of the ledgers in %s: %w", folder, err)
	}
	if _, err := w.Index(); err != nil {
		return fmt.Errorf("make a workload of the ledgers in %s: %w", folder, err)
	}
	lines.Print(g.Stderr, "ddlemu: %s\n", w.Head.Source.Notes)
	lines.Print(g.Stderr, "ddlemu: the ledgers do not say: %s\n", w.Head.Source.Missing)
	return o.Write(g, w)
}
