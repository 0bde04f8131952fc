// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/whatif"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

type whatIfOptions struct {
	Link, Without, On string
	Top               int

	flags *pflag.FlagSet
}

// Factor is a flag that takes a factor, as 2x, or a value of a link's parameter.
type Factor struct {
	param configs.LinkParam
	text  string
	By    float64 // 0: the text is a value
}

func (f *Factor) String() string { return f.text }

// Type is how the help calls the value.
func (f *Factor) Type() string { return "factor or value" }

// Set parses the value of the flag.
func (f *Factor) Set(text string) error {
	f.text, f.By = text, 0
	if number, ok := strings.CutSuffix(text, "x"); ok {
		by, err := strconv.ParseFloat(number, 64)
		if err != nil || !(by > 0 && by <= 1e6) {
			return fmt.Errorf("%q is no factor: write it as 2x or 0.5x", text)
		}
		f.By = by
		return nil
	}
	return f.param.Set(&configs.LinkPatch{}, text)
}

// withFactor are the flags that take a factor too.
var withFactor = []string{"bw", "lat"}

// mostAlone is how many cables and NICs are tried alone, if the user does not say.
const mostAlone = 5

// NewWhatIfCommand is `ddlemu whatif`.
func NewWhatIfCommand(g *cli.Global) *cobra.Command {
	o := &whatIfOptions{Top: mostAlone}
	cmd := &cobra.Command{
		Use:   "whatif FOLDER...",
		Short: "Say how long a traced job would have taken with a link changed, or another job gone",
		Long: cli.Long("docs/whatif.md", `
Play the collectives that a job has recorded with --trace again, in virtual time, with one thing
changed. Messages wait as NCCL's schedules say, so a changed link moves everything behind it.
The computation of ranks and NCCL's choices stay as they were recorded.

With nothing changed, say what upgrades are worth, each with twice the rate, and advise one.`),
		Example: `  ddlemu bench alltoall --profile ndr400 --ranks 4 -b 1M -e 1M --trace t
  ddlemu whatif t
  ddlemu whatif t --link node0:node1 --bw 2x
  ddlemu whatif t --lat 3us
  ddlemu whatif jobA jobB --without-job jobB
  ddlemu whatif t --on other-fabric.yaml`,
		Args: cli.TraceFolders,
		RunE: func(cmd *cobra.Command, args []string) error { return runWhatIf(cmd.Context(), g, o, args) },
	}
	fs := cmd.Flags()
	for _, p := range configs.LinkParams() {
		if slices.Contains(withFactor, p.Flag) {
			fs.Var(&Factor{param: p}, p.Flag, p.Usage+"; or a factor, as 2x")
		}
	}
	flags.AddShape(fs)
	fs.StringVar(&o.Link, "link", "", "`links` to change, as for `ddlemu shape`, several with commas (default: all between nodes)")
	fs.StringVar(&o.Without, "without-job", "", "leave out the job with this `name`: its folder's name")
	fs.StringVar(&o.On, "on", "", "play the calls on the fabric of this `file or profile`")
	fs.IntVar(&o.Top, "top", o.Top, "with nothing changed: try so many `cables` and NICs alone")
	o.flags = fs
	g.AddJSONFlag(fs)
	g.AddQuietFlag(fs)
	return cli.Ruled(cmd, cli.Least("top", 0))
}

func runWhatIf(ctx context.Context, g *cli.Global, o *whatIfOptions, dirs []string) error {
	show, stop := g.ShowReplay(ctx, "whatif")
	defer stop()
	t, fab, err := show.Load(dirs)
	if err != nil {
		return err
	}
	if ended, unfinished := t.Ended(); unfinished > 0 && ended == 0 {
		return cli.BadInput(
			"no call of %s has ended, so nothing says how long one takes: see `ddlemu pending` and `ddlemu why`",
			strings.Join(t.Jobs, ", "))
	}
	change, err := o.change(fab, t)
	if err != nil {
		return err
	}
	study := whatif.New(fab, t)
	changes := []whatif.Change{change}
	if change.Name == "" {
		played, r, err := cli.Explain(fab, t)
		if err != nil {
			return err
		}
		changes = whatif.Upgrades(played, r, o.Top)
	}
	results, err := study.Of(changes)
	if err != nil {
		return cli.BadInput("%w", err)
	}
	notes := slices.Concat(cli.Missing(t), cli.WarmupNotes(t), studyNotes(t, study, results, fab.Config.TimedNodes),
		portNotes(study, changes), uncrossedNotes(t, study.Fabrics(&change)[1], &change, o.Link))
	random := isRandom(study, changes)
	return g.Print(whatIfJSON(t, changes, results, notes, random),
		func(w io.Writer) { printWhatIf(w, t, changes, results, notes, random) })
}

// change is the one that the flags ask for. Its name is empty if they ask for none.
func (o *whatIfOptions) change(f *replay.Fabric, t *messages.Trace) (c whatif.Change, err error) {
	patch, factors, err := o.patch()
	if err != nil {
		return c, err
	}
	var names []string
	if o.Without != "" {
		job := slices.Index(t.Jobs, o.Without)
		if job < 0 || len(t.Jobs) == 1 {
			return c, cli.BadInput("--without-job %s: must be one of several jobs; these are %s", o.Without,
				strings.Join(t.Jobs, ", "))
		}
		c.Without = map[int]bool{job: true}
		names = append(names, "without "+o.Without)
	}
	if o.On != "" {
		if c.Fabric, err = otherFabric(o.On, f); err != nil {
			return c, err
		}
		names = append(names, "on "+o.On)
	}
	if !patch.Empty() || len(factors) > 0 {
		if o.On != "" {
			return c, cli.BadInput("--on: give no other change of links: write it into the file")
		}
		pattern := cmp.Or(o.Link, "*")
		if err := patchSpecs(&c, f, pattern, patch, factors); err != nil {
			return c, err
		}
		names = append(names, pattern+o.given())
	} else if o.Link != "" {
		return c, cli.BadInput("--link %s: say what changes, as with --bw 2x", o.Link)
	}
	c.Name = strings.Join(names, ", ")
	return c, nil
}

// patch is what the flags say of links.
func (o *whatIfOptions) patch() (p configs.LinkPatch, factors map[string]float64, err error) {
	factors = map[string]float64{}
	for _, m := range configs.LinkParams() {
		if !o.flags.Changed(m.Flag) {
			continue
		}
		value := cli.ValueOf(o.flags.Lookup(m.Flag))
		if f, ok := value.(*Factor); ok && f.By != 0 {
			factors[m.Flag] = f.By
			continue
		}
		if err := m.Set(&p, value.String()); err != nil {
			return p, nil, cli.BadInput("--%s: %w", m.Flag, err)
		}
	}
	return p, factors, nil
}

// given are the changes of links in the user's words.
func (o *whatIfOptions) given() (text string) {
	for _, m := range configs.LinkParams() {
		if o.flags.Changed(m.Flag) {
			text += fmt.Sprintf(" --%s %s", m.Flag, o.flags.Lookup(m.Flag).Value)
		}
	}
	return text
}

// patchSpecs makes the change of the links that patterns name, which commas separate.
func patchSpecs(c *whatif.Change, f *replay.Fabric, patterns string, patch configs.LinkPatch,
	factors map[string]float64) error {
	for _, pattern := range strings.Split(patterns, ",") {
		hops, err := patchedHops(f, strings.TrimSpace(pattern), patch)
		if err != nil {
			return err
		}
		c.Hops = append(c.Hops, hops...)
	}
	slices.Sort(c.Hops)
	c.Hops = slices.Compact(c.Hops)
	c.Spec = func(hop int, s link.Spec) link.Spec {
		s = patched(f.Hops[hop].Kind, s, patch)
		if by := factors["bw"]; by != 0 {
			s.Bandwidth = uint64(float64(s.Bandwidth) * by)
		}
		if by := factors["lat"]; by != 0 {
			s.Latency = time.Duration(float64(s.Latency) * by)
		}
		return s
	}
	for _, h := range c.Hops {
		if _, err := link.NewParams(c.Spec(h, f.Hops[h].Spec), f.TimeScale); err != nil {
			return cli.BadInput("%s: %w", f.HopName(h), err)
		}
	}
	return nil
}

// patchedHops are those that a pattern or the name of a port names. The fabric must allow the patch.
func patchedHops(f *replay.Fabric, pattern string, patch configs.LinkPatch) ([]int, error) {
	if h := portNamed(f, pattern); h >= 0 {
		return []int{h}, nil
	}
	hops, err := f.Select(pattern)
	if err != nil {
		return nil, cli.BadInput("--link: %w", err)
	}
	changed := *f.Fabric
	changed.Hops = slices.Clone(f.Hops)
	if _, err := changed.Shape(pattern, patch); err != nil {
		return nil, cli.BadInput("%w", err)
	}
	return hops, nil
}

// portNamed is the port of a NIC with this name, as node2 tx; -1 if there is none.
func portNamed(f *replay.Fabric, name string) int {
	for h, x := range f.Hops {
		if (x.Kind == link.TxPort || x.Kind == link.RxPort) && f.HopName(h) == name {
			return h
		}
	}
	return -1
}

// patched is a hop's parameters after a change.
func patched(kind link.HopKind, s link.Spec, patch configs.LinkPatch) link.Spec {
	if patch.Empty() {
		return s
	}
	l := fabric.LinkOf(s)
	patch.Apply(&l)
	if kind == link.TxPort || kind == link.RxPort {
		l = l.Port(kind == link.RxPort)
	}
	return fabric.Spec(l)
}

// otherFabric reads a fabric file, or takes a profile with the nodes of the recorded fabric.
func otherFabric(name string, recorded *replay.Fabric) (*replay.Fabric, error) {
	c, err := otherConfig(name, recorded.Config.Nodes)
	if err != nil {
		return nil, cli.BadInput("--on: %w", err)
	}
	fab, err := fabric.New(c)
	if err != nil {
		return nil, cli.BadInput("--on: %w", err)
	}
	return &replay.Fabric{Fabric: fab, TimeScale: recorded.TimeScale}, nil
}

func otherConfig(name string, nodes int) (*configs.Fabric, error) {
	if slices.Contains(configs.AllProfileNames(), name) {
		c, err := configs.Profile(name)
		if err == nil {
			c.Nodes = nodes
		}
		return c, err
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no file and no profile: see `ddlemu profiles`", name)
	}
	return configs.Load(configs.Source{File: name, Getenv: func(string) string { return "" }})
}

// studyNotes say what the results do not rest on. timed: the nodes took time.
func studyNotes(t *messages.Trace, s *whatif.Study, results []*whatif.Result, timed bool) (notes []string) {
	if _, n := t.Ended(); n > 0 {
		notes = append(notes, fmt.Sprintf("%s not ended, and left out of the times: see `ddlemu why`",
			units.Count(n, "call")))
	}
	calls := s.Calls()
	if n := calls.Skipped(); n > 0 {
		notes = append(notes,
			fmt.Sprintf("%s could not be played again, because an earlier one of their connection is missing",
				units.Count(n, "message")))
	}
	if n, byRules := calls.ByRules(); byRules > 0 {
		notes = append(notes,
			fmt.Sprintf("%d of %s follow rules instead of NCCL's plan, which the recording does not determine: each post "+
				"waits for what its rank had got when it was recorded", byRules, units.Count(n, "call")))
	}
	if all, n := calls.Rules(); n > 0 {
		notes = append(notes,
			fmt.Sprintf("%d of %d rules of NCCL's schedules do not hold in the recording and were left out", n, all))
	}
	if posts, ns := calls.Computed(); posts > 0 {
		notes = append(notes, computedNote(posts, float64(ns)/1000/float64(t.Ranks[0].TimeScale), timed))
	}
	if slices.ContainsFunc(results, func(r *whatif.Result) bool { return r.IsRange(0) }) {
		notes = append(notes, rangeNote)
	}
	for _, r := range results {
		if r.Never > 0 {
			notes = append(notes, fmt.Sprintf("%s would never be posted: what they wait for never arrives",
				units.Count(r.Never, "message")))
		}
	}
	return notes
}

// rangeNote explains two figures for one change.
const rangeNote = "the first of two figures holds if the ranks computed only when a call had ended, the second one if " +
	"they computed during their calls too: the recording does not say which, and what happens lies between them"

// computedNote says what time stays as it was recorded. timed: the nodes took time.
func computedNote(posts int, us float64, timed bool) string {
	why := "as if it had computed meanwhile"
	if timed {
		why = "because of the time of the nodes (launches, kernels, links within them), or of a computation"
	}
	return fmt.Sprintf("up to %d posts or calls of a rank were later than NCCL's schedule explains, by %.3f us "+
		"together, %s: that time stays as it was recorded", posts, us, why)
}

// isRandom says whether a fabric, before or after a change, draws something at random.
func isRandom(s *whatif.Study, changes []whatif.Change) bool {
	return slices.ContainsFunc(changes, func(c whatif.Change) bool {
		both := s.Fabrics(&c)
		return whatif.IsRandom(both[0]) || whatif.IsRandom(both[1])
	})
}

// uncrossedNotes name links that the fabric's file or the change sets, and that no message crosses.
func uncrossedNotes(t *messages.Trace, f *replay.Fabric, c *whatif.Change, links string) []string {
	var patterns []string
	for pattern := range strings.SplitSeq(links, ",") {
		patterns = append(patterns, strings.TrimSpace(pattern))
	}
	for i := range f.Config.Links {
		patterns = append(patterns, f.Config.Links[i].Match)
	}
	slices.Sort(patterns)
	return emulate.UncrossedLinks(f.Fabric, slices.Compact(patterns), f.Crossed(t, c.Without))
}

// portNotes say why a link makes no difference.
func portNotes(s *whatif.Study, changes []whatif.Change) []string {
	if c := &changes[0]; len(changes) > 1 || c.Spec == nil || !behindPorts(s.Fabrics(c), c.Hops) {
		return nil
	}
	return []string{
		"the ports of the NICs, which stay as they are, have no higher rate than the links that change: name a port " +
			"as \"node0 tx\", or leave out --link to change the ports too"}
}

// behindPorts says whether only rates of links between NICs change, and none of them is below the rate of a port on its
// way.
func behindPorts(fabrics [2]*replay.Fabric, hops []int) bool {
	rate := func(h fabric.Hop) uint64 { return h.Spec.Bandwidth - 1 } // 0 is no limit: the highest
	for _, h := range hops {
		before, after := fabrics[0].Hops[h], fabrics[1].Hops[h]
		if before.Kind != link.Link || before.Spec.Bandwidth == after.Spec.Bandwidth {
			return false
		}
		port := min(rate(fabrics[0].Hops[2*before.Src]), rate(fabrics[0].Hops[2*before.Dst+1]))
		if min(rate(before), rate(after)) < port {
			return false
		}
	}
	return true
}

// printWhatIf prints a table of functions for one change, or a line for each of several, and what they advise.
func printWhatIf(w io.Writer, t *messages.Trace, changes []whatif.Change, results []*whatif.Result, notes []string,
	random bool) {
	if len(changes) == 1 {
		printChange(w, t, &changes[0], results[0])
	} else {
		printUpgrades(w, t, changes, results)
	}
	basis := "NCCL's choices are from the recorded run"
	if random {
		basis += ", and so are the draws of jitter and losses"
	}
	cli.PrintBasis(w, t, basis, notes)
}

// printChange prints a line for each function.
func printChange(w io.Writer, t *messages.Trace, c *whatif.Change, r *whatif.Result) {
	us := cli.Microseconds(t)
	fmt.Fprintf(w, "what if: %s\n", c.Name)
	tb := cli.NewTable(w, "calls of", "calls ", "us ", "then us ", "difference ")
	for i, before := range r.Before {
		difference := "-"
		if before.Ns != 0 {
			difference = r.TextOf(i)
		}
		tb.AppendRow(table.Row{before.Name, before.Calls, us(before.Ns), then(us, r, i), difference})
	}
	tb.Render()
}

// then is the time of the calls of a function after a change, or the two times between which it is.
func then(us func(ns int64) string, r *whatif.Result, function int) string {
	if text := us(r.After[function].Ns); !r.IsRange(function) {
		return text
	}
	return us(r.After[function].Ns) + " to " + us(r.During[function].Ns)
}

// printUpgrades prints a line for each change, and the advice.
func printUpgrades(w io.Writer, t *messages.Trace, changes []whatif.Change, results []*whatif.Result) {
	us := cli.Microseconds(t)
	tb := cli.NewTable(w, "what if", "cables ", "us ", "then us ", "difference ")
	for i, r := range results {
		cables := ""
		if changes[i].IsUpgrade() {
			cables = strconv.Itoa(len(changes[i].Links))
		}
		tb.AppendRow(table.Row{changes[i].Name, cables, us(r.Before[0].Ns), then(us, r, 0), r.Text()})
	}
	tb.Render()
	if _, advice := whatif.Advise(changes, results); advice != "" {
		fmt.Fprintf(w, "advice: %s\n", advice)
	}
}

// whatIfFunction is the calls of a function in JSON.
type whatIfFunction struct {
	Function string `json:"function"` // all: from the first begin to the last end of all calls
	Calls    int    `json:"calls"`
	Before   int64  `json:"before_ns"`
	After    int64  `json:"after_ns"`        // if the ranks computed only when a call had ended
	During   int64  `json:"after_during_ns"` // if they computed during their calls too
}

type whatIfChange struct {
	Change    string           `json:"change"`
	Kind      whatif.Kind      `json:"kind,omitempty"`    // cable, nic, group, tier, all, latency or losses
	Links     []string         `json:"links,omitempty"`   // as patterns of links: a cable is one, a NIC is one
	Advised   bool             `json:"advised,omitempty"` // the smallest upgrade that brings about as much as any
	Gain      float64          `json:"gain"`              // of all calls: -0.2 is a fifth less time; as after_ns
	During    float64          `json:"gain_during"`       // as after_during_ns
	Functions []whatIfFunction `json:"functions"`
}

func whatIfJSON(t *messages.Trace, changes []whatif.Change, results []*whatif.Result, notes []string, random bool) any {
	scale := t.Ranks[0].TimeScale
	best, advice := -1, ""
	if len(changes) > 1 {
		best, advice = whatif.Advise(changes, results)
	}
	var all []whatIfChange
	for i, r := range results {
		c := whatIfChange{Change: changes[i].Name, Kind: changes[i].Kind, Links: changes[i].Links, Advised: i == best,
			Gain: r.Gain(), During: r.GainDuring()}
		for k, before := range r.Before {
			c.Functions = append(c.Functions,
				whatIfFunction{before.Name, before.Calls, before.Ns / scale, r.After[k].Ns / scale, r.During[k].Ns / scale})
		}
		all = append(all, c)
	}
	return struct {
		Clock     string         `json:"clock"`
		TimeScale int64          `json:"time_scale"`
		Random    bool           `json:"random"` // links draw jitter or losses: another run draws others
		Notes     []string       `json:"notes"`
		Advice    string         `json:"advice,omitempty"`
		Changes   []whatIfChange `json:"changes"`
	}{cli.ClockName(t), scale, random, notes, advice, all}
}
