// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// Options describe how to run a table.
type Options struct {
	Table *tables.Table // complete
	// Emulate has the fabric and the libraries. Its sizes, iterations and time scale are set here.
	Emulate emulate.Options
	// Scale selects the smallest time scale for calls of size bytes or more on a real clock. The error says that this
	// host carries none. If it is nil, the fabric's time scale is used, or this host is measured if that is 0.
	Scale  func(ctx context.Context, size int64) (host.Selection, error)
	Memory uint64 // bytes available for buffers, 0 if not known
}

// ErrNoRow means that every row is left out.
var ErrNoRow = errors.New("no row can be run here")

// Run runs the table's rows with real NCCL. If it is interrupted, it returns, beside the error, a report of the rows so
// far, with the verdict incomplete. Beside any other error there is no report.
func (o Options) Run(ctx context.Context) (*Report, error) {
	t := o.Table
	if !o.Emulate.ChooseClock() && o.Scale == nil && o.Emulate.Config.TimeScale == 0 {
		o.Scale = func(ctx context.Context, size int64) (host.Selection, error) {
			return measureHost(ctx, t, &o.Emulate.Config, size)
		}
	}
	r := o.report()
	rows, out := fit(t.Rows, t.Ranks, o.Memory)
	r.LeftOut = append(r.LeftOut, out...)
	r.Conclusion = verdict.New(nil)
	all := groups(rows)
	fmt.Fprintf(o.Emulate.Log, "ddlemu: %s of rows with similar times\n", units.Count(len(all), "group"))
	for i, group := range all {
		if !o.Emulate.Budget.Allows(0) {
			r.leaveOut(group, o.Emulate.Budget.Text()+": spent by the rows before")
			continue
		}
		err := o.share(i, len(all)).runGroup(ctx, group, r)
		if err != nil && ctx.Err() != nil {
			for _, rest := range all[i+1:] {
				r.leaveOut(rest, "interrupted")
			}
			r.Conclusion.Stop(fmt.Sprintf("interrupted: %d of %s run", len(r.Lines), units.Count(len(t.Rows), "row")))
			o.remark(r)
			r.conclude()
			return r, err
		}
		if err != nil {
			return nil, err
		}
	}
	if len(r.Lines) == 0 {
		return nil, r.NoRow()
	}
	o.remark(r)
	r.conclude()
	return r, nil
}

// NoRow is the error of a report that has only rows that are left out.
func (r *Report) NoRow() error {
	if len(r.LeftOut) == 0 {
		return ErrNoRow
	}
	return fmt.Errorf("%w: %d bytes: %s", ErrNoRow, r.LeftOut[0].Size, r.LeftOut[0].Reason)
}

// measureHost selects a time scale at which this host carries the table's calls of size bytes or more on c.
func measureHost(ctx context.Context, t *tables.Table, c *configs.Fabric, size int64) (host.Selection, error) {
	f, err := fabric.New(c)
	if err != nil {
		return host.Selection{}, err
	}
	return host.SelectScale(ctx,
		host.JobSize{Fabric: f, Ranks: t.Ranks, Message: max(message(t, size), host.MessageSize(size, t.Ranks))})
}

func (o Options) runGroup(ctx context.Context, group []testslog.Row, r *Report) error {
	e := o.Emulate
	iters, out, err := o.plan(ctx, &e, &group)
	if err != nil {
		return r.refused(ctx, group, err)
	}
	r.LeftOut = append(r.LeftOut, out...)
	if len(group) == 0 {
		return nil
	}
	configure(&e, o.Table, group, iters)
	var run bench.Recording
	e.Output = emulate.Output{LastOnly: true, Printer: func() bench.Printer { return &run }}
	res, err := emulate.Run(ctx, e)
	var tooLong *emulate.TooLongError
	var spent *emulate.BudgetError
	switch {
	case errors.As(err, &tooLong):
		return r.refused(ctx, group, err)
	case errors.As(err, &spent):
		r.leaveOut(group, err.Error())
		return nil
	case err != nil && ctx.Err() == nil:
		return err
	}
	if n := res.Result.Wrong(); n > 0 {
		return fmt.Errorf("%d wrong elements", n)
	}
	why := e.Budget.Text()
	if ctx.Err() != nil {
		why = "interrupted"
	}
	if run.Header != nil {
		r.NCCL = cmp.Or(run.Header.NCCL, r.NCCL)
	}
	if kept := r.addLines(group, res, why); kept < len(group) && err == nil && e.Budget.Total == 0 {
		return errors.New("the bench has other rows than the table")
	}
	r.Notes = append(r.Notes, fmt.Sprintf("%s: %s, %d iterations", span(group), clockOf(&e, res.Scale), iters))
	r.Notes = append(r.Notes, res.Verdict.Notes...)
	if err == nil {
		r.Conclusion.Join(res.Verdict)
	}
	return err
}

// addLines adds the rows of a group that were measured, and leaves out the others for this reason. It returns how many
// were measured.
func (r *Report) addLines(group []testslog.Row, out emulate.Outcome, why string) int {
	n := 0
	for _, row := range group {
		i := slices.IndexFunc(out.Result.Rows, func(m bench.Row) bool { return m.Size == row.Size })
		if i < 0 {
			r.leaveOut([]testslog.Row{row}, why)
			continue
		}
		m := out.Result.Rows[i].OutOfPlace
		r.Lines = append(r.Lines, newLine(&row, m.Expected, m.Time, out.Scale))
		n++
	}
	return n
}

// share is the budget of group i of n: an equal share of the budget that is left. The part that it does not take is for
// the groups after it, whose calls take longer.
func (o Options) share(i, n int) Options {
	if b := &o.Emulate.Budget; b.Total > 0 {
		b.End = time.Now().Add(time.Until(b.End) / time.Duration(n-i))
	}
	return o
}

// plan selects the time scale of a group and its iterations, and removes rows that take too long.
func (o *Options) plan(ctx context.Context, e *emulate.Options, group *[]testslog.Row) (iters int,
	out []tables.LeftOut, err error) {
	if e.Config.IsVirtual() {
		fmt.Fprintf(e.Log, "ddlemu: running %s on the virtual clock\n", span(*group))
		return iterations(o.Table.Collective), nil, nil
	}
	k := max(e.Config.TimeScale, 1)
	if o.Scale != nil {
		s, err := o.Scale(ctx, (*group)[0].Size)
		if err != nil {
			return 0, nil, err
		}
		k = largestScale(*group, s.Scale, o.times().group)
		e.Scale = func(context.Context) (host.Selection, error) {
			return host.Selection{Scale: k, Reason: s.Reason},
				nil
		}
	}
	e.Config.TimeScale = k
	if *group, iters, out = shorten(*group, k, o.times()); len(*group) > 0 {
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
func span(group []testslog.Row) string {
	first, last := group[0].Size, group[len(group)-1].Size
	if first == last {
		return fmt.Sprintf("%d bytes", first)
	}
	return fmt.Sprintf("%d to %d bytes", first, last)
}

func (r *Report) leaveOut(rows []testslog.Row, why string) {
	for _, row := range rows {
		r.LeftOut = append(r.LeftOut, tables.LeftOut{Size: row.Size, Reason: why})
	}
}

// refused leaves out a group that this host cannot carry, which makes the report INVALID. If the user interrupted it,
// it returns err.
func (r *Report) refused(ctx context.Context, group []testslog.Row, err error) error {
	if ctx.Err() != nil {
		return err
	}
	r.leaveOut(group, err.Error())
	r.Conclusion.Add(verdict.Finding{Cause: verdict.CauseHost,
		Text: fmt.Sprintf("%s could not be run: %v", span(group), err)})
	return nil
}

// Expect reports the model's expectations. It runs NCCL only for its decisions. Rows whose schedule the model does not
// know are left out.
func (o Options) Expect(ctx context.Context) (*Report, error) {
	rows, info, err := emulate.Expect(ctx, o.ForModel())
	if err != nil {
		return nil, err
	}
	r := o.NewReport(info.NCCL)
	for i, f := range rows {
		r.Calculated(&o.Table.Rows[i], f.Time, f.Problem)
	}
	if len(r.Lines) == 0 {
		return nil, r.NoRow()
	}
	return r, nil
}

// Calculated adds a row whose time is calculated; problem, if not "", says why it is not.
func (r *Report) Calculated(row *testslog.Row, took time.Duration, problem string) {
	if problem != "" {
		r.LeftOut = append(r.LeftOut, tables.LeftOut{Size: row.Size, Reason: problem})
		return
	}
	r.Lines = append(r.Lines, newLine(row, took, 0, 0))
}

// NewReport returns a report on the table without lines, for times that the model calculates. nccl is the version of
// NCCL that decides.
func (o *Options) NewReport(nccl string) *Report {
	r := o.report()
	r.NCCL = nccl
	o.remark(r)
	return r
}

// ForModel are the options with which the model calculates the table: with its rows, variables and launch.
func (o *Options) ForModel() emulate.Options {
	e, t := o.Emulate, o.Table
	e.ChooseClock()
	e.Config.TimeScale, e.Config.ThreadOfNode = 1, t.Launch == tables.OneThread
	configure(&e, t, t.Rows, iterations(t.Collective))
	return e
}

func (o *Options) report() *Report {
	e, t := &o.Emulate, o.Table
	return &Report{System: t.System, Source: t.Source, Profile: e.Config.Name, CUDA: e.Libraries.CUDA, GPU: t.GPU,
		Nodes: t.Nodes, Class: e.Class(&e.Config, t.Collective),
		Fabric: e.Header.Fabric, RanksPerProcess: t.RanksPerProcess, LeftOut: slices.Clone(t.LeftOut),
		Notes: slices.Concat(e.TimeNote(), e.Header.Unused)}
}

// remark says in r how the measurement differs from what r compares it with.
func (o *Options) remark(r *Report) {
	t := o.Table
	r.OtherNCCL = t.OtherNCCL(r.NCCL)
	r.Notes = append(r.Notes, t.NCCLRemark(r.NCCL)...)
	if t.Cycles > 1 {
		r.Notes = append(r.Notes, testslog.CyclesNote(t.Cycles))
	}
	r.Notes = append(r.Notes, t.LaunchRemarks()...)
}
