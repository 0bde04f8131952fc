// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// TraceFolders are the arguments of a command that reads the folders of several jobs.
func TraceFolders(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return BadInput("%s takes the folders of --trace: one for each job", cmd.Name())
	}
	return nil
}

// LoadTraces reads what the jobs of these folders have recorded, and the fabric that they ran on.
func LoadTraces(dirs []string) (*messages.Trace, *replay.Fabric, error) {
	t, err := messages.Load(dirs...)
	if err != nil {
		return nil, nil, BadInput("%w", err)
	}
	fab, err := replay.LoadFabric(dirs[0], t.Ranks[0].TimeScale)
	if err != nil {
		return nil, nil, BadInput("%w", err)
	}
	return t, fab, nil
}

// Replaying shows the progress of a command that plays recorded messages again, and ends it when ctx does.
type Replaying struct {
	*progress.Display
	ctx context.Context
}

// ShowReplay shows progress until stop is called.
func (g *Global) ShowReplay(ctx context.Context, name string) (r *Replaying, stop func()) {
	d, stop := g.ShowProgress(name)
	return &Replaying{d, ctx}, stop
}

// Load is LoadTraces, with progress while the ledgers are read and, later, while they are played again.
func (r *Replaying) Load(dirs []string) (*messages.Trace, *replay.Fabric, error) {
	r.Set("ledgers are read", progress.Unknown)
	t, fab, err := LoadTraces(dirs)
	if err != nil {
		return nil, nil, err
	}
	what := units.Count(len(t.Messages), "message") + " of " + strings.Join(t.Jobs, ", ") + " are played again"
	fab.Watch = func(part float64) error {
		r.Part(what, part)
		return r.ctx.Err()
	}
	return t, fab, nil
}

// Writer returns a writer to w, the file of this name, that ends when the context does.
func (r *Replaying) Writer(w io.Writer, name string) io.Writer {
	if name == StandardOutput {
		name = "the output"
	}
	r.Set(name+" is written", progress.Unknown)
	return &stoppable{r.ctx, w}
}

type stoppable struct {
	ctx context.Context
	w   io.Writer
}

func (s *stoppable) Write(text []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(text)
}

// Explain plays the messages again and says where the time of each call went. It returns what each segment did, too.
func Explain(fab *replay.Fabric, t *messages.Trace) (*replay.Replayed, *why.Report, error) {
	played, err := replay.Play(fab, t)
	if err != nil {
		return nil, nil, err
	}
	r, err := why.Of(played)
	return played, r, err
}

// PrintBasis prints what a report of a trace rests on, behind its figures: the clock, and notes.
func PrintBasis(w io.Writer, t *messages.Trace, also string, notes []string) {
	if also != "" {
		also = "; " + also
	}
	fmt.Fprintf(w, "clock: %s, time scale %d%s\n", ClockName(t), t.Ranks[0].TimeScale, also)
	lines.Print(w, "note: %s\n", notes)
}

// Microseconds prints recorded times, in ns of the fabric's clock, as us of the emulated network.
func Microseconds(t *messages.Trace) func(ns int64) string {
	return func(ns int64) string { return fmt.Sprintf("%.3f", float64(ns)/1000/float64(t.Ranks[0].TimeScale)) }
}

// RankName is how a rank is called in tables.
func RankName(rank int) string {
	if rank < 0 {
		return "?"
	}
	return fmt.Sprintf("rank %d", rank)
}

// ClockName is the clock of a traced job.
func ClockName(t *messages.Trace) string {
	if t.Ranks[0].Virtual {
		return configs.VirtualClock
	}
	return configs.RealClock
}

// Missing lists unknown facts and events that have not happened.
func Missing(t *messages.Trace) []string {
	notes := MissingLedgers(t)
	if n := len(t.Messages) - t.Whole(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d of %s not finished at both ends: see `ddlemu pending`", n,
			units.Count(len(t.Messages), "message")))
	}
	if n := t.Unattributed(); n > 0 {
		notes = append(notes, fmt.Sprintf("for %s of %d it is not known which collective they belong to",
			units.Count(n, "message"), len(t.Messages)))
	}
	return notes
}

// MissingLedgers says what the ledgers do not have.
func MissingLedgers(t *messages.Trace) []string {
	notes := []string{}
	if n := t.Overwritten; n > 0 {
		notes = append(notes, fmt.Sprintf("%d older records were overwritten by newer ones", n))
	}
	if n := t.Unreadable; n > 0 {
		notes = append(notes, fmt.Sprintf("%d records were not whole: a rank was writing them, or ended while it did",
			n))
	}
	if n := t.Unnoted; n > 0 {
		notes = append(notes, fmt.Sprintf("%d ends of connections are unknown: a ledger had no place for them", n))
	}
	for job, dir := range t.Jobs {
		if ledgers, ranks := t.Ledgers(job); ledgers != ranks {
			notes = append(notes, fmt.Sprintf("%s: %s of %s", dir, units.Count(ledgers, "ledger"),
				units.Count(ranks, "rank")))
		}
	}
	for _, path := range t.Cut {
		notes = append(notes, path+" ends too early")
	}
	return notes
}

// NcclName is the version of NCCL that the ranks have used, or the versions if they differ.
func NcclName(t *messages.Trace) string {
	var all []string
	for _, r := range t.Ranks {
		all = append(all, versionOfNCCL(r.NCCL))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " and ")
}

// versionOfNCCL is the text for NCCL's number of a version, which a trace may not have.
func versionOfNCCL(number int) string {
	if number == 0 {
		return "unknown"
	}
	return nccl.VersionText(number)
}

// WarmupNotes say that sums do not have the calls of a warm-up, if there was one.
func WarmupNotes(t *messages.Trace) []string {
	n := t.Warmups()
	if n == 0 {
		return nil
	}
	return []string{"the sums are without " + units.Count(n, "call") +
		" before the first step, in which NCCL made its connections"}
}

// ChangeNotes say which links were changed while the job ran, and when: the settings shown of its fabric were in force
// before.
func ChangeNotes(p *replay.Replayed, r *why.Report) (notes []string) {
	first, _ := r.Span(p)
	us := Microseconds(p.Trace)
	changes := p.Fabric.LinkChanges(first)
	const shown = 10
	for i := range changes[:min(len(changes), shown)] {
		notes = append(notes, fmt.Sprintf("changed after %s us: %s", us(changes[i].Time-first),
			changes[i].Text(p.Fabric.Fabric)))
	}
	if more := len(changes) - shown; more > 0 {
		notes = append(notes, fmt.Sprintf("links were changed %d more times: `ddlemu report --json` has all", more))
	}
	return notes
}

// WhyNotes say what the report does not rest on.
func WhyNotes(t *messages.Trace, r *why.Report) []string {
	notes := Missing(t)
	if r.Skipped > 0 {
		notes = append(notes,
			fmt.Sprintf("%s could not be played again, because an earlier one of their connection is missing",
				units.Count(r.Skipped, "message")))
	}
	if r.Different > 0 {
		notes = append(notes,
			fmt.Sprintf(
				"%d of %s came at another time than the model says for what is recorded, at most by %.3f us: the "+
					"emulator was late, or other traffic has no ledger here",
				r.Different, units.Count(r.Played, "message"), float64(r.Largest)/1000/float64(t.Ranks[0].TimeScale)))
	}
	off, unfinished := 0, 0
	for i := range r.Calls {
		c := &r.Calls[i]
		if c.Unfinished {
			unfinished++
		}
		if d := why.Sum(c.Path) - c.Ns(); 100*max(d, -d) > c.Ns() {
			off++
		}
	}
	if unfinished > 0 {
		notes = append(notes, fmt.Sprintf("%s not ended: the time is that until the ledgers end",
			units.Count(unfinished, "call")))
	}
	if off > 0 {
		notes = append(notes, fmt.Sprintf("the causes of %s do not sum to its time within 1 %%",
			units.Count(off, "call")))
	}
	return notes
}
