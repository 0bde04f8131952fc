// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/bench/emulate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/host"
	"github.com/ddlemu/ddlemu/shaper/verdict"
)

// Options describe how to run a table.
type Options struct {
	// Emulate has the fabric and the libraries. Its sizes, iterations and time scale are set here.
	Emulate emulate.Options
	// Scale selects the smallest time scale for calls of size bytes or more on a real clock. The error says that this
	// host carries none. If it is nil, the fabric's time scale is used, or this host is measured if that is 0.
	Scale  func(ctx context.Context, size int64) (host.Selection, error)
	Memory uint64 // bytes available for buffers, 0 if not known
}

// ErrNoRow means that every row is left out.
var ErrNoRow = errors.New("no row can be run here")

// Run runs the table's rows with real NCCL. If it returns an error, there is no report.
func (t *Table) Run(ctx context.Context, o Options) (*Report, error) {
	if !o.Emulate.ChooseClock() && o.Scale == nil && o.Emulate.Config.TimeScale == 0 {
		o.Scale = func(ctx context.Context, size int64) (host.Selection, error) {
			return t.measureHost(ctx, &o.Emulate.Config, size)
		}
	}
	r := t.report(&o.Emulate)
	rows, out := fit(t.Rows, t.Ranks, o.Memory)
	r.LeftOut = out
	r.Conclusion = verdict.New(nil)
	all := groups(rows)
	fmt.Fprintf(o.Emulate.Log, "ddlemu: %s of rows with similar times\n", units.Count(len(all), "group"))
	for _, group := range all {
		if err := t.runGroup(ctx, o, group, r); err != nil {
			return nil, err
		}
	}
	if len(r.Lines) == 0 {
		return nil, fmt.Errorf("%w: %d bytes: %s", ErrNoRow, r.LeftOut[0].Size, r.LeftOut[0].Reason)
	}
	r.conclude()
	return r, nil
}

// measureHost selects a time scale at which this host carries the table's calls of size bytes or more on c.
func (t *Table) measureHost(ctx context.Context, c *configs.Fabric, size int64) (host.Selection, error) {
	f, err := fabric.New(c)
	if err != nil {
		return host.Selection{}, err
	}
	return host.SelectScale(ctx, host.Workload{Fabric: f, Ranks: t.Ranks, Message: max(t.Message(size), host.MessageSize(size, t.Ranks))})
}

func (t *Table) runGroup(ctx context.Context, o Options, group []Row, r *Report) error {
	e := o.Emulate
	iters, out, err := o.plan(ctx, &e, &group)
	if err != nil {
		return r.refused(ctx, group, err)
	}
	r.LeftOut = append(r.LeftOut, out...)
	if len(group) == 0 {
		return nil
	}
	t.configure(&e.Bench, group, iters)
	e.Env = append(e.Env[:len(e.Env):len(e.Env)], t.Env...)
	head := &header{}
	e.LastOnly, e.Printer = true, func() bench.Printer { return head }
	res, err := emulate.Run(ctx, e)
	var tooLong *emulate.TooLongError
	if errors.As(err, &tooLong) {
		return r.refused(ctx, group, err)
	}
	if err != nil {
		return err
	}
	if n := res.Result.Wrong(); n > 0 {
		return fmt.Errorf("%d wrong elements", n)
	}
	if len(res.Result.Rows) != len(group) {
		return errors.New("the bench has other rows than the table")
	}
	r.NCCL = head.NCCL
	r.Notes = append(r.Notes, fmt.Sprintf("%s: %s, %d iterations", span(group), clockOf(&e, res.Scale), iters))
	r.Notes = append(r.Notes, res.Verdict.Notes...)
	for i, row := range group {
		m := res.Result.Rows[i].OutOfPlace
		r.Lines = append(r.Lines, newLine(row, m.Expected, m.Time, res.Scale))
	}
	r.Conclusion.Join(res.Verdict)
	return nil
}

// plan selects the time scale of a group and its iterations, and removes rows that take too long.
func (o *Options) plan(ctx context.Context, e *emulate.Options, group *[]Row) (iters int, out []LeftOut, err error) {
	if e.Config.IsVirtual() {
		fmt.Fprintf(e.Log, "ddlemu: running %s on the virtual clock\n", span(*group))
		return goodIters, nil, nil
	}
	k := max(e.Config.TimeScale, 1)
	if o.Scale != nil {
		s, err := o.Scale(ctx, (*group)[0].Size)
		if err != nil {
			return 0, nil, err
		}
		k = largestScale(*group, s.Scale)
		e.Scale = func(context.Context) (host.Selection, error) { return host.Selection{Scale: k, Reason: s.Reason}, nil }
	}
	e.Config.TimeScale = k
	if *group, iters, out = shorten(*group, k); len(*group) > 0 {
		about := (time.Duration(warmup+iters) * callTime(*group, k)).Round(time.Second)
		fmt.Fprintf(e.Log, "ddlemu: running %s at time scale %d, which takes about %v\n", span(*group), k, about)
	}
	return iters, out, nil
}

// clockOf names the clock of a run, for a note.
func clockOf(e *emulate.Options, scale int) string {
	if e.Config.IsVirtual() {
		return "virtual clock"
	}
	return fmt.Sprintf("time scale %d", scale)
}

// span names the sizes of a group.
func span(group []Row) string {
	first, last := group[0].Size, group[len(group)-1].Size
	if first == last {
		return fmt.Sprintf("%d bytes", first)
	}
	return fmt.Sprintf("%d to %d bytes", first, last)
}

// refused leaves out a group that this host cannot carry, which makes the report INVALID. If the user interrupted it,
// it returns err.
func (r *Report) refused(ctx context.Context, group []Row, err error) error {
	if ctx.Err() != nil {
		return err
	}
	for _, row := range group {
		r.LeftOut = append(r.LeftOut, LeftOut{row.Size, err.Error()})
	}
	r.Conclusion.Add(verdict.Finding{Cause: verdict.CauseHost, Text: fmt.Sprintf("%s could not be run: %v", span(group), err)})
	return nil
}

// Expect reports the model's expectations. It runs NCCL only for its decisions. If the model does not know a schedule,
// it returns an error.
func (t *Table) Expect(ctx context.Context, o Options) (*Report, error) {
	r := t.report(&o.Emulate)
	e := o.Emulate
	e.ChooseClock()
	e.Config.TimeScale = 1
	t.configure(&e.Bench, t.Rows, goodIters)
	e.Env = append(e.Env[:len(e.Env):len(e.Env)], t.Env...)
	rows, info, err := emulate.Expect(ctx, e)
	if err != nil {
		return nil, err
	}
	r.NCCL = info.NCCL
	for i, f := range rows {
		if !f.Known {
			return nil, fmt.Errorf("%d bytes: %s", f.Case.Size, f.Problem)
		}
		r.Lines = append(r.Lines, newLine(t.Rows[i], f.Time, 0, 0))
	}
	return r, nil
}

func (t *Table) report(e *emulate.Options) *Report {
	return &Report{System: t.System, Source: t.Source, Profile: e.Config.Name, CUDA: e.Libraries.CUDA}
}

// header is a printer that stores the header.
type header struct{ bench.Header }

func (h *header) Begin(b bench.Header) error { h.Header = b; return nil }
func (h *header) Row(bench.Row) error        { return nil }
func (h *header) End(bench.Summary) error    { return nil }
