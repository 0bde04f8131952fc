// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/intercept/messages"
)

// NewMessagesCommand is `ddlemu messages`.
func NewMessagesCommand(g *cli.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "messages FOLDER",
		Short: "Print the messages that a traced job has sent",
		Long: cli.Long("docs/messages.md", `
Read the ledgers that the ranks of a job wrote with --trace, while it runs or afterwards, and join
what the two ends of each message noted. Print a line per pair of ranks; --json prints each message.

A transfer begins when the sender posts the message and ends with its last byte at the receiver,
in time of the emulated network. A ledger keeps the newest million records; the rest is counted.`),
		Example: `  ddlemu bench alltoall --profile ndr400 --ranks 4 -b 1M -e 1M --trace t
  ddlemu messages t
  ddlemu messages t --json > messages.json`,
		Args: cli.Exactly(1, "messages takes one folder: the folder of --trace"),
		RunE: func(_ *cobra.Command, args []string) error { return runMessages(g, args[0]) },
	}
	g.AddJSONFlag(cmd.Flags())
	return cmd
}

func runMessages(g *cli.Global, dir string) error {
	t, err := messages.Load(dir)
	if err != nil {
		return cli.BadInput("%w", err)
	}
	return g.Print(messagesJSON(t), func(w io.Writer) { printMessages(w, t) })
}

// printMessages prints a line per pair of ranks.
func printMessages(w io.Writer, tr *messages.Trace) {
	t := cli.NewTable(w, "from", "to", "messages ", "bytes ", "largest ", "transfer us p50 ", "max ",
		"receive after post us p50 ", "late us max ")
	us := cli.Microseconds(tr)
	for _, p := range tr.Pairs() {
		transfer, longest, after := "-", "-", "-"
		if p.Whole > 0 {
			transfer, longest, after = us(p.Transfer), us(p.LongestTransfer), us(p.ReceiveAfter)
		}
		t.AppendRow(table.Row{cli.RankName(p.Sender), cli.RankName(p.Receiver), p.Messages, p.Bytes, p.Largest,
			transfer, longest, after, us(p.MostLate)})
	}
	t.Render()
	cli.PrintBasis(w, tr, "", cli.Missing(tr))
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
	}{cli.ClockName(t), t.Ranks[0].TimeScale, cli.Missing(t), all}
}
