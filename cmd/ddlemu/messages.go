// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

const traceUsage = "`folder` for a ledger of each rank: what crossed the links, see `ddlemu messages`"

// makeTrace makes the folder for the ledgers of a job on fabric c and returns its absolute path, "" if none is wanted.
func makeTrace(dir string, c *configs.Fabric) (string, error) {
	if dir == "" {
		return "", nil
	}
	if c.OnKernel() {
		return "", badInput("--trace: on the kernel datapath the ranks write no ledger: leave it out, or use datapath shm")
	}
	path, err := ledger.MakeFolder(dir)
	if err != nil {
		return "", badInput("--trace: %w", err)
	}
	return path, nil
}

// injection is the variable by which the plugin gets the ranges of a program, by NVTX. It says if the user's is kept.
func (g *global) injection(layout locate.Layout) []string {
	env, users := layout.Injection(g.Getenv)
	if users != "" {
		g.warn("%s=%s is kept, so the program's NVTX ranges are not recorded: unset it to record them", locate.InjectionEnv, users)
	}
	return env
}

func newMessagesCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "messages FOLDER",
		Short: "Print the messages that a traced job has sent",
		Long: `Reads the ledgers that the ranks of a job wrote with --trace, and joins what the two ends
of each message noted. Prints one line per pair of ranks; --json prints each message.

Times are those of the emulated network. The transfer of a message begins when the
sender posts it and ends when its last byte is at the receiver, in the model. A ledger
keeps the newest million records; what is missing is said below the table.

A ledger can be read while the job runs, and after a rank was killed.

` + exitHelp,
		Example: `  ddlemu bench alltoall --profile ndr400 --ranks 4 -b 1M -e 1M --trace t
  ddlemu messages t
  ddlemu messages t --json > messages.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return badInput("messages takes one folder: that of --trace")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runMessages(g, args[0]) },
	}
	g.addJSONFlag(cmd.Flags())
	return cmd
}

func runMessages(g *global, dir string) error {
	t, err := messages.Load(dir)
	if err != nil {
		return badInput("%w", err)
	}
	if g.JSON {
		return g.printJSON(messagesJSON(t))
	}
	printMessages(g.Stdout, t)
	return nil
}

// printMessages prints a line per pair of ranks.
func printMessages(w io.Writer, tr *messages.Trace) {
	t := newTable(w, "from", "to", "messages ", "bytes ", "largest ", "transfer us p50 ", "max ", "receive after post us p50 ", "late us max ")
	us := microseconds(tr)
	for _, p := range tr.Pairs() {
		transfer, longest, after := "-", "-", "-"
		if p.Whole > 0 {
			transfer, longest, after = us(p.Transfer), us(p.LongestTransfer), us(p.ReceiveAfter)
		}
		t.AppendRow(table.Row{rankName(p.Sender), rankName(p.Receiver), p.Messages, p.Bytes, p.Largest, transfer, longest, after, us(p.MostLate)})
	}
	t.Render()
	printBasis(w, tr, "", missing(tr))
}

// tracedMessage is a message with what it is for; Function is "" if that is not known.
type tracedMessage struct {
	messages.Message
	Function     string `json:"function"`
	Sequence     int    `json:"sequence"` // of the calls of the function on the communicator, from 0
	Communicator string `json:"communicator"`
	Algorithm    string `json:"algorithm"`
	Protocol     string `json:"protocol"`
}

// messagesJSON is every message.
func messagesJSON(t *messages.Trace) any {
	all := make([]tracedMessage, len(t.Messages))
	for i, m := range t.Messages {
		all[i].Message = m
		if c := t.CallOf(&m); c >= 0 {
			call, task := &t.Calls[c], &t.Tasks[m.Task()]
			all[i].Function, all[i].Sequence, all[i].Communicator = call.Name, call.Seq, fmt.Sprintf("%#x", call.Comm)
			all[i].Algorithm, all[i].Protocol = task.Algo, task.Proto
		}
	}
	return struct {
		Clock     string          `json:"clock"`
		TimeScale int64           `json:"time_scale"`
		Notes     []string        `json:"notes"`
		Messages  []tracedMessage `json:"messages"`
	}{clockName(t), t.Ranks[0].TimeScale, missing(t), all}
}
