// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// Doublings is the maximum number of repetitions of a run that was INVALID because of the host, if the time scale was
// selected automatically. Each has twice the time scale, up to the maximum.
const Doublings = 2

// complete is an attempt that measured everything, was INVALID because of the host, and is repeated.
type complete struct {
	number int
	out    Outcome
	table  *bench.Recording // nil if it was printed
}

// attempts calls attempt until a run is VALID, fails, or cannot become VALID. Repeating is sound, because other work on
// this host only makes a run worse. why is the reason for the first time scale.
func (o *Options) attempts(ctx context.Context, why string,
	attempt func(ctx context.Context, notes []string, printer bench.Printer) (Outcome, error)) (Outcome, error) {
	retry := "" // why this attempt is made, in the header
	var before *complete
	for n := 1; ; n++ {
		more := n <= Doublings && o.Scale != nil && o.Shared == ""
		printer := o.Output.Printer()
		var table *bench.Recording
		if o.Output.LastOnly && (more || before != nil) {
			table = &bench.Recording{To: printer}
			printer = table
		}
		began := time.Now()
		out, err := attempt(ctx, o.notes(why, retry), printer)
		if stopped, _ := whyStopped(ctx); stopped && before != nil &&
			(err != nil || out.Verdict.Word == verdict.Incomplete) {
			return o.keep(ctx, before, out, err)
		}
		if again := err == nil && out.Verdict.SlowHost && more; !again {
			return out, errors.Join(err, table.Play())
		}
		next := min(max(2*out.Scale, needed(out)), link.MaxTimeScale)
		if took := time.Since(began) * time.Duration(next) / time.Duration(max(out.Scale, 1)); !o.Budget.Allows(took) {
			fmt.Fprintf(o.Log,
				"ddlemu: %s: INVALID at time scale %d, and not repeated at %d, which would take about %v\n",
				o.Budget.Text(), out.Scale, next, took.Round(time.Second))
			return out, table.Play()
		}
		o.Config.TimeScale = next
		if o.Config.TimeScale != out.Scale {
			why = fmt.Sprintf("chosen for this host, because %d was too small", out.Scale)
		}
		retry = retryNote(n, out)
		fmt.Fprintf(o.Log, "ddlemu: INVALID at time scale %d: %s\nddlemu: once more at time scale %d\n", out.Scale,
			out.Verdict.Summary, o.Config.TimeScale)
		before = &complete{n, out, table}
	}
}

// keep makes the attempt before the outcome, because its repetition was stopped with the outcome out and err. After an
// interrupt the verdict is incomplete. If the budget was spent, it is INVALID, as it would be without a repetition.
func (o *Options) keep(ctx context.Context, before *complete, out Outcome, err error) (Outcome, error) {
	_, spent := whyStopped(ctx)
	kept := before.out
	v := &kept.Verdict
	why := fmt.Sprintf("%s: %s; the rows are from attempt %d, at time scale %d",
		attemptName(before.number+1), cmp.Or(out.Verdict.Summary, "interrupted"), before.number, kept.Scale)
	if spent {
		v.Notes, err = append(v.Notes, why), nil
		fmt.Fprintf(o.Log, "ddlemu: %s\n", why)
	} else {
		v.Stop(why + ", which was INVALID: " + v.Summary)
	}
	if t := before.table; t != nil {
		end := bench.NewSummary(kept.Result, *v, o.Output.More)
		end.Budget = t.Summary.Budget
		t.Summary = &end
	}
	return kept, errors.Join(err, before.table.Play())
}

// attemptName is an attempt in a sentence.
func attemptName(n int) string { return fmt.Sprintf("attempt %d of %d at most", n, Doublings+1) }
