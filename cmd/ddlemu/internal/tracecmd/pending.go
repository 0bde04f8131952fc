// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/pending"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// NewPendingCommand is `ddlemu pending`.
func NewPendingCommand(g *cli.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pending FOLDER | DUMP...",
		Short: "Say what a job waits for",
		Long: cli.Long("docs/why.md", `
Read the ledgers that the ranks of a job write with --trace, while it runs or after it has ended.
Say which collectives some ranks have begun and others have not, and which messages are missing.

Also read dumps of PyTorch's flight recorder, one file per rank. Say for each process group the
first call that some ranks have not made, that differs or that has not ended, and unmatched sends.`),
		Example: `  ddlemu run --profile ndr400 --trace t -- python train.py &
  ddlemu pending t
  ddlemu pending /tmp/nccl_trace_rank_*`,
		Args: cli.AtLeast(1, "pending takes the folder of --trace, or dumps of PyTorch's flight recorder"),
		RunE: func(_ *cobra.Command, args []string) error {
			if dumps, err := dumpFiles(args); err != nil {
				return cli.BadInput("%w", err)
			} else if len(dumps) > 0 {
				return pendingDumps(g, dumps)
			}
			t, r, err := loadPending(args[0])
			if err != nil {
				return cli.BadInput("%w", err)
			}
			return g.Print(pendingJSON(t, r), func(w io.Writer) { printPending(w, t, r) })
		},
	}
	g.AddJSONFlag(cmd.Flags())
	return cmd
}

// ExplainFailure prints what the ranks of a job that has failed were waiting for, if they wrote ledgers in dir.
func ExplainFailure(g *cli.Global, dir string) {
	if dir == "" {
		return
	}
	if paths, err := ledger.Files(dir); err == nil && len(paths) == 0 {
		return // no rank had joined
	}
	TellPending(g, dir, "what the ranks were waiting for", true)
}

// TellPending prints what the ranks wait for, below a title. If that is nothing, it prints that only with always.
func TellPending(g *cli.Global, dir, title string, always bool) {
	t, r, err := loadPending(dir)
	if err != nil {
		g.Warn("%s is not known: %v", title, err)
		return
	}
	if always || len(r.Calls)+len(r.Connections) > 0 {
		fmt.Fprintf(g.Stderr, "ddlemu: %s (ddlemu pending %s):\n", title, dir)
		printPending(g.Stderr, t, r)
	}
}

// loadPending reads the ledgers in a folder. Without a description of the fabric beside them, as of a job recorded on
// its own network, no link is known to be down.
func loadPending(dir string) (*messages.Trace, *pending.Report, error) {
	t, err := messages.Load(dir)
	if errors.Is(err, messages.ErrNoLedger) {
		return nil, nil, fmt.Errorf("no rank has a ledger in %s: with --trace %[1]s a rank begins one in its first "+
			"ncclCommInitRank, so either no rank is there yet, or the job writes none", dir)
	} else if err != nil {
		return nil, nil, err
	}
	fab, err := replay.LoadFabric(dir, t.Ranks[0].TimeScale)
	if err != nil && !errors.Is(err, ledger.ErrNoFabric) {
		return nil, nil, err
	}
	return t, pending.Of(t, fab), nil
}

// printPending prints what a job waits for.
func printPending(w io.Writer, t *messages.Trace, r *pending.Report) {
	us := cli.Microseconds(t)
	if text := starting(t); text != "" {
		fmt.Fprintln(w, text)
	} else if len(r.Calls)+len(r.Connections) == 0 {
		fmt.Fprintf(w, "nothing: every call that was begun is finished (%s, %s)\n", units.Count(len(t.Calls), "call"),
			units.Count(len(t.Messages), "message"))
	}
	for _, s := range alike(r.Calls) {
		number := fmt.Sprintf("#%d", s.first)
		if s.last != s.first {
			number = fmt.Sprintf("#%d to #%d", s.first, s.last)
		}
		fmt.Fprintf(w, "%s %s on communicator %#x: %s\n", s.name, number, s.comm, s.text)
	}
	if len(r.Connections) > 0 {
		tb := cli.NewTable(w, "from", "to", "channel ", "call", "sends ", "bytes ", "receives ", "for us ",
			"last arrival us ago ", "state")
		for _, c := range r.Connections {
			call, ago, channel := "-", "-", "-"
			if c.Channel >= 0 {
				channel = strconv.Itoa(c.Channel)
			}
			if c.Call >= 0 {
				call = fmt.Sprintf("%s #%d", t.Calls[c.Call].Name, t.Calls[c.Call].Seq)
			}
			if c.Arrived > 0 {
				ago = us(r.Last - c.LastAt)
			}
			tb.AppendRow(table.Row{cli.RankName(c.Sender), cli.RankName(c.Receiver), channel, call, c.Sends,
				c.SendBytes, c.Receives, us(r.Last - c.Since), ago, c.State()})
		}
		tb.Render()
	}
	cli.PrintBasis(w, t, "times are up to the last one in the ledgers", cli.MissingLedgers(t))
}

// starting says which ranks have begun their first communicator and which have not; "" if all have, or if there was a
// call. A rank begins its ledger in its first ncclCommInitRank.
func starting(t *messages.Trace) string {
	ledgers, ranks := t.Ledgers(0)
	if ledgers >= ranks || len(t.Calls)+len(t.Messages) > 0 {
		return ""
	}
	var here, missing []int
	for rank := range ranks {
		if slices.ContainsFunc(t.Ranks, func(r ledger.Info) bool { return int(r.Rank) == rank }) {
			here = append(here, rank)
		} else {
			missing = append(missing, rank)
		}
	}
	return fmt.Sprintf("the first communicator: ncclCommInitRank was begun by %s; not begun by %s", ranksText(here),
		ranksText(missing))
}

// series is calls of one function, one after another, in the same state.
type series struct {
	name        string
	comm        uint64
	first, last int
	text        string
}

func alike(calls []pending.Unfinished) []series {
	var all []series
	for _, c := range calls {
		text := strings.Join(callState(c), "; ")
		if n := len(all) - 1; n >= 0 && all[n].name == c.Name && all[n].comm == c.Comm && all[n].last+1 == c.Seq &&
			all[n].text == text {
			all[n].last = c.Seq
			continue
		}
		all = append(all, series{c.Name, c.Comm, c.Seq, c.Seq, text})
	}
	return all
}

// callState says which ranks have begun a call and which have not.
func callState(c pending.Unfinished) []string {
	state := []string{"begun by " + ranksText(c.Begun)}
	if len(c.Missing) > 0 {
		state = append(state, "not begun by "+ranksText(c.Missing))
	}
	if c.Waiting > 0 {
		have := "have"
		if c.Waiting == 1 {
			have = "has"
		}
		state = append(state, fmt.Sprintf("%s posted that %s not arrived", units.Count(c.Waiting, "message"), have))
	}
	return state
}

// mostRanks is how many ranks are listed by name.
const mostRanks = 16

func ranksText(ranks []int) string {
	var names []string
	for _, r := range ranks[:min(mostRanks, len(ranks))] {
		if r < 0 {
			names = append(names, fmt.Sprintf("rank %d of the communicator, which has no ledger", -1-r))
		} else {
			names = append(names, cli.RankName(r))
		}
	}
	if len(ranks) > mostRanks {
		names = append(names, fmt.Sprintf("%d others", len(ranks)-mostRanks))
	}
	return strings.Join(names, ", ")
}

// pendingCall is a call that is not finished, in JSON.
type pendingCall struct {
	Function     string `json:"function"`
	Sequence     int    `json:"sequence"`
	Communicator string `json:"communicator"`
	Begun        []int  `json:"begun"`
	Missing      []int  `json:"not_begun"` // ranks; -1 - n for rank n of the communicator, which has no ledger
	Waiting      int    `json:"messages_not_arrived"`
}

// pendingConnection is a connection with messages that are not finished, in JSON.
type pendingConnection struct {
	Sender   int    `json:"sender"`
	Receiver int    `json:"receiver"`
	Channel  int    `json:"channel"`
	First    uint64 `json:"first_message"`
	Sends    int    `json:"sends"`
	Bytes    uint64 `json:"bytes"`
	Receives int    `json:"receives"`
	ForNs    int64  `json:"for_ns"`
	Arrived  int    `json:"arrived"`
	Down     string `json:"down,omitempty"` // the link that stops it
	FailedNs int64  `json:"failed_ns"`      // of the fabric's clock, divided by the time scale; 0: it has not failed
	State    string `json:"state"`
}

func pendingJSON(t *messages.Trace, r *pending.Report) any {
	scale, notes := t.Ranks[0].TimeScale, cli.MissingLedgers(t)
	if text := starting(t); text != "" {
		notes = append(notes, text)
	}
	calls, connections := []pendingCall{}, []pendingConnection{}
	for _, c := range r.Calls {
		calls = append(calls, pendingCall{c.Name, c.Seq, fmt.Sprintf("%#x", c.Comm), c.Begun,
			append([]int{}, c.Missing...), c.Waiting})
	}
	for _, c := range r.Connections {
		connections = append(connections, pendingConnection{c.Sender, c.Receiver, c.Channel, c.First, c.Sends,
			c.SendBytes, c.Receives, (r.Last - c.Since) / scale, c.Arrived, c.Down, c.Failed / scale, c.State()})
	}
	return struct {
		Clock       string              `json:"clock"`
		Notes       []string            `json:"notes"`
		Calls       []pendingCall       `json:"calls"`
		Connections []pendingConnection `json:"connections"`
	}{cli.ClockName(t), notes, calls, connections}
}
