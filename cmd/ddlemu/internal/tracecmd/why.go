// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// NewWhyCommand is `ddlemu why`.
func NewWhyCommand(g *cli.Global) *cobra.Command {
	worst := 10
	cmd := &cobra.Command{
		Use:   "why FOLDER...",
		Short: "Say where the time of each collective of a traced job went",
		Long: cli.Long("docs/why.md", `
Play the messages that a job has recorded with --trace again through the link model, and walk the
critical path of each collective back from its last byte. Each nanosecond has one cause. The
folders of several jobs on one fabric are explained together: one may wait for another.

Messages are between nodes. Where nodes take time, a note has the command that explains that time.`),
		Example: `  ddlemu bench alltoall --profile ndr400 --ranks 4 -b 1M -e 1M --trace t
  ddlemu why t
  ddlemu why jobA jobB --worst 3
  ddlemu why t --json > why.json
  ddlemu expect allreduce --profile hgx-h100-ndr400 -b 1M -e 1M --why   # parts within the nodes`,
		Args: cli.TraceFolders,
		RunE: func(cmd *cobra.Command, args []string) error { return runWhy(cmd.Context(), g, args, worst) },
	}
	g.AddJSONFlag(cmd.Flags())
	g.AddQuietFlag(cmd.Flags())
	cmd.Flags().IntVar(&worst, "worst", worst, "print so many of the longest `calls`")
	return cli.Ruled(cmd, cli.Least("worst", 0))
}

func runWhy(ctx context.Context, g *cli.Global, dirs []string, worst int) error {
	show, stop := g.ShowReplay(ctx, "why")
	defer stop()
	t, fab, err := show.Load(dirs)
	if err != nil {
		return err
	}
	played, r, err := cli.Explain(fab, t)
	if err != nil {
		return err
	}
	_, file, err := ledger.ReadFabric(dirs[0])
	if err != nil {
		return err
	}
	notes := slices.Concat(cli.ChangeNotes(played, r), cli.WhyNotes(t, r), cli.WarmupNotes(t),
		nodeNotes(file, &fab.Config, t, r))
	if g.JSON {
		return g.PrintJSON(whyJSON(t, r, notes))
	}
	p := whyPrinter{w: g.Stdout, scale: float64(t.Ranks[0].TimeScale)}
	p.print(t, r, worst, notes)
	return nil
}

// mostParts is how many causes are printed of a call or function. The others are summed.
const mostParts = 8

// whyPrinter prints a report as text. Times are of the emulated network.
type whyPrinter struct {
	w     io.Writer
	scale float64
}

func (p *whyPrinter) print(t *messages.Trace, r *why.Report, worst int, notes []string) {
	if r.Bottleneck != nil {
		fmt.Fprintf(p.w, "%s\n", r.Bottleneck)
	}
	for _, f := range r.Functions {
		unfinished := ""
		if f.Unfinished > 0 {
			unfinished = fmt.Sprintf("; %d not ended, counted until the ledgers end", f.Unfinished)
		}
		fmt.Fprintf(p.w, "%s: %s, %s together%s\n", f.Name, units.Count(f.Calls, "call"), p.time(f.Ns), unfinished)
		p.parts(f.Parts, f.Ns)
	}
	if all := r.Worst(worst); len(all) > 0 {
		fmt.Fprintf(p.w, "\nThe longest of %s:\n", units.Count(r.Measured(), "call"))
		for _, c := range all {
			end := p.time(c.Ns()) + ", last byte at " + c.Rank
			if c.Unfinished {
				end = fmt.Sprintf("not ended after %s, %s waits for a message", p.time(c.Ns()), c.Rank)
			}
			fmt.Fprintf(p.w, "%s #%d: %s, %s on its critical path\n", c.Name, c.Seq, end,
				units.Count(len(c.Steps), "message"))
			p.parts(why.Totals(c.Path), c.Ns())
		}
	}
	cli.PrintBasis(p.w, t, "", notes)
}

// leastNamed is the share of a time from which on a cause is printed with the ranks whose messages occupied the link.
const leastNamed = 0.1

// mostLinks is how many links are printed above the causes, and leastLink the share of the time that each has at least.
const (
	mostLinks = 4
	leastLink = 0.01
)

// links prints how much of a time each link took, whatever the cause, the longest first.
func (p *whyPrinter) links(parts []why.Total, whole int64) {
	var all []string
	for _, l := range why.ByLink(parts) {
		if float64(l.Ns) >= leastLink*float64(whole) {
			all = append(all, l.Link+" "+why.Percent(l.Ns, whole))
		}
	}
	if more := len(all) - mostLinks; more > 0 {
		all = append(all[:mostLinks], fmt.Sprintf("%d more", more))
	}
	if len(all) > 0 {
		fmt.Fprintf(p.w, "  by link: %s\n", strings.Join(all, ", "))
	}
}

// parts prints the links and the causes of a time, the largest first.
func (p *whyPrinter) parts(parts []why.Total, whole int64) {
	p.links(parts, whole)
	line := func(ns int64, text string) {
		fmt.Fprintf(p.w, "  %5.1f %%  %10s  %s\n", 100*float64(ns)/float64(max(whole, 1)), p.time(ns), text)
	}
	for i := range parts[:min(mostParts, len(parts))] {
		part := &parts[i]
		line(part.Ns, part.String())
		if len(part.By) > 0 && float64(part.Ns) >= leastNamed*float64(whole) {
			fmt.Fprintf(p.w, "%*s%s\n", 25, "", occupants(part.By))
		}
	}
	if len(parts) > mostParts {
		rest := int64(0)
		for i := range parts[mostParts:] {
			rest += parts[mostParts+i].Ns
		}
		line(rest, units.Count(len(parts)-mostParts, "other cause"))
	}
}

func (p *whyPrinter) time(ns int64) string { return fmt.Sprintf("%.3f us", float64(ns)/1000/p.scale) }

// whyCall is a call in JSON. Times are ns of the emulated network, without the time scale.
type whyCall struct {
	Function     string      `json:"function"`
	Sequence     int         `json:"sequence"`
	Communicator string      `json:"communicator"`
	Job          string      `json:"job"`
	Start        int64       `json:"start_ns"` // of the fabric's clock, divided by the time scale
	Time         int64       `json:"time_ns"`
	Warmup       bool        `json:"warm_up,omitempty"` // before what the job measures
	Ended        bool        `json:"ended"`             // false: its time is until the ledgers end
	LastRank     string      `json:"last_rank"`
	Bytes        uint64      `json:"bytes"` // of its messages
	Messages     int         `json:"messages"`
	Critical     int         `json:"messages_on_critical_path"`
	Causes       []why.Total `json:"causes"` // the largest first
}

// whyBottleneck is what took most of the time of all calls, as in `ddlemu report --json`.
type whyBottleneck struct {
	Text  string    `json:"text"`
	Link  string    `json:"link,omitempty"`
	Alike []string  `json:"alike,omitempty"` // links within 2 % of Link, itself included
	Kind  why.Cause `json:"kind,omitempty"`  // if it is no link
	Time  int64     `json:"time_ns"`
	All   int64     `json:"all_ns"` // of all calls
}

// mostPairsJSON is how many pairs of ranks a cause has in JSON: those whose messages occupied the link for longest.
const mostPairsJSON = 16

func whyJSON(t *messages.Trace, r *why.Report, notes []string) any {
	scale := t.Ranks[0].TimeScale
	calls := make([]whyCall, len(r.Calls))
	for i := range r.Calls {
		c := &r.Calls[i]
		causes := why.Totals(c.Path)
		for k := range causes {
			causes[k].Ns /= scale
			causes[k].By = causes[k].By[:min(mostPairsJSON, len(causes[k].By))]
			for n := range causes[k].By {
				causes[k].By[n].Ns /= scale
			}
		}
		calls[i] = whyCall{
			Function: c.Name, Sequence: c.Seq, Communicator: fmt.Sprintf("%#x", c.Comm),
			Warmup: c.Warmup,
			Job:    t.Jobs[t.Tasks[c.Tasks[0]].Job], Start: c.Start / scale, Time: c.Ns() / scale, Ended: !c.Unfinished,
			LastRank: c.Rank, Bytes: c.Bytes, Messages: len(c.Messages), Critical: len(c.Steps), Causes: causes,
		}
	}
	var bottleneck *whyBottleneck
	if b := r.Bottleneck; b != nil {
		bottleneck = &whyBottleneck{b.String(), b.Link, b.Alike, b.Kind, b.Ns / scale, b.All / scale}
	}
	return struct {
		Clock      string         `json:"clock"`
		TimeScale  int64          `json:"time_scale"`
		Notes      []string       `json:"notes"`
		Bottleneck *whyBottleneck `json:"bottleneck,omitempty"` // none if no call took time
		Calls      []whyCall      `json:"calls"`
	}{cli.ClockName(t), scale, notes, bottleneck, calls}
}

// nodeNotes say what the ledgers do not have of nodes that take time, and the command that calculates it. file is the
// fabric that the job ran on.
func nodeNotes(file string, c *configs.Fabric, t *messages.Trace, r *why.Report) []string {
	if !c.TimedNodes || len(r.Calls) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the ledgers have the messages between nodes: a rank that had nothing ready to send "+
		"waited for its host's thread, a kernel or the links within its node; how long for each, the model says: `%s`",
		expectCommand(file, t, r))}
}

// expectCommand cuts the time of the longest collective of all ranks into its parts, by the model.
func expectCommand(file string, t *messages.Trace, r *why.Report) string {
	world := int(t.Ranks[0].World)
	collective, size := "COLLECTIVE", ""
	for _, c := range r.Worst(len(r.Calls)) {
		task := &t.Tasks[c.Tasks[0]]
		if name, args, ok := calledAs(task); ok && task.Ranks == world {
			collective, size = name, args
			break
		}
	}
	command := fmt.Sprintf("ddlemu expect %s -F %s --ranks %d%s", collective, file, world, size)
	version := nccl.VersionText(t.Ranks[0].NCCL)
	for _, line := range locate.SoftVersions {
		if strings.HasPrefix(version, line+".") && line != locate.DefaultSoftVersion {
			command += " --nccl " + line
		}
	}
	return command + " --why"
}

// calledAs returns the name and the flags by which nccl-tests makes the call of a task. ok is false for one that is not
// a collective, or of a type that nccl-tests does not have.
func calledAs(task *messages.Task) (name, args string, ok bool) {
	c, err := nccl.ParseCollective(task.Func)
	if err != nil || c.IsP2P() {
		return "", "", false
	}
	types, err := nccl.ParseDataTypes(task.Datatype)
	if err != nil || len(types) != 1 {
		return "", "", false
	}
	size := int64(task.Count) * types[0].Size() * c.Shares(task.Ranks)
	args = fmt.Sprintf(" -b %d -e %[1]d", size)
	if c.Reduces() && task.Datatype != "float" {
		args += " -d " + task.Datatype
	}
	return c.String(), args, true
}

// How much is printed of those whose messages occupied a link.
const (
	mostPairs = 3 // of ranks; if there are more, their senders or their receivers are printed
	mostNamed = 4
)

// occupants says between which ranks the messages went that occupied a link, and for how much of the time.
func occupants(by []why.Share) string {
	if len(by) <= mostPairs {
		return "sent by " + shares(by, func(p why.Pair) string { return p.From + " to " + p.To })
	}
	from, to := func(p why.Pair) string { return p.From }, func(p why.Pair) string { return p.To }
	if senders, receivers := countRanks(by, from), countRanks(by, to); receivers < senders {
		return fmt.Sprintf("sent to %s by %s", shares(by, to), units.Count(senders, "rank"))
	} else {
		return fmt.Sprintf("sent by %s to %s", shares(by, from), units.Count(receivers, "rank"))
	}
}

func countRanks(by []why.Share, rank func(why.Pair) string) int {
	seen := map[string]bool{}
	for _, s := range by {
		seen[rank(s.Pair)] = true
	}
	return len(seen)
}

// shares sums times by a name, and lists the largest with their part of the whole.
func shares(by []why.Share, name func(why.Pair) string) string {
	sums, whole := map[string]int64{}, int64(0)
	for _, s := range by {
		sums[name(s.Pair)] += s.Ns
		whole += s.Ns
	}
	var names []string
	for n := range sums {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	percent := func(ns int64) string { return fmt.Sprintf("(%.0f %%)", 100*float64(ns)/float64(max(whole, 1))) }
	var texts []string
	rest := whole
	for _, n := range names[:min(mostNamed, len(names))] {
		texts = append(texts, n+" "+percent(sums[n]))
		rest -= sums[n]
	}
	if n := len(names) - mostNamed; n > 0 {
		texts = append(texts, fmt.Sprintf("%s %s", units.Count(n, "other"), percent(rest)))
	}
	return strings.Join(texts, ", ")
}
