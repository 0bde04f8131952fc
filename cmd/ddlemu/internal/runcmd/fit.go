// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/report/score"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
	"github.com/ddlemu/ddlemu/shaper/run/validate/fit"
)

// fitOptions are the flags of fit.
type fitOptions struct {
	validateOptions
	Decisions, Output string
	Predict           []string
	Every             int
	force             bool
}

// AddFlags adds the flags to fs.
func (o *fitOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.addFabricFlags(g, fs)
	o.addSizeFlags(fs)
	fs.StringVar(&o.Decisions, "decisions", "",
		"`folder` for NCCL's decisions: those that are there are not asked for again")
	fs.StringArrayVar(&o.Predict, "predict", nil, "predict this `table`, or each, with figures that are fitted to the "+
		"others; may be repeated")
	fs.IntVar(&o.Every, "every", 1, "use only every `n`-th row of each table for the search, which is faster")
	fs.StringVarP(&o.Output, "output", "o", "", "`file` for the figures and the predictions, as JSON")
	fs.BoolVar(&o.force, "force", false, "replace the file of --output")
	g.AddQuietFlag(fs)
	g.AddJSONFlag(fs)
	g.AddVerboseFlag(fs)
}

// NewFitCommand is `ddlemu fit`.
func NewFitCommand(g *cli.Global) *cobra.Command {
	var o fitOptions
	cmd := &cobra.Command{
		Use:   "fit KIND FOLDER_OR_TABLE...",
		Short: "Fit the times of a kind of GPU to measured tables",
		Long: `Find the figures of the section time: of a kind of GPU with which the model is nearest to tables
of nccl-tests. KIND is a name of "ddlemu gpus" or a file. It names the figures to fit and, in
fitted_to, the tables. Figures that the rows do not determine go to the mean of the other kinds.

--predict each predicts each table with figures that are fitted to the other tables only.
--decisions keeps NCCL's decisions. Empty its folder if nodes, NICs, variables or NCCL change.

Exit status: 0; 1 if a rank failed; 2 for bad input; 130 if interrupted (with the tables predicted so far).
Page: docs/validation.md`,
		Example: `  ddlemu fit l40s tables
  ddlemu fit a100-sxm tables --predict each --decisions decided -o a100.json`,
		Args: cli.AtLeast(2, "fit takes a kind of GPU and tables: see `ddlemu fit --help`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runFit(cmd.Context(), g, &o, args[0], args[1:])
		},
	}
	o.AddFlags(g, cmd.Flags())
	return cli.Ruled(cmd,
		cli.Excludes("gpu", "KIND", "the first argument is the kind of GPU"),
		cli.Least("every", 1),
		cli.NewFiles("output"))
}

// fitReport is the result of fit as JSON.
type fitReport struct {
	Kind    string             `json:"kind"`
	Figures []fitFigure        `json:"figures,omitempty"`
	Tables  []*validate.Report `json:"tables,omitempty"` // predicted by figures that are fitted to the others
}

// fitFigure is a figure that was fitted.
type fitFigure struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Before string `json:"before"`          // as the kind has it
	Given  bool   `json:"given,omitempty"` // not fitted
}

func runFit(ctx context.Context, g *cli.Global, o *fitOptions, kind string, paths []string) error {
	gpu, err := configs.LoadGPU(kind, "")
	if err != nil {
		return err
	}
	if gpu.Time == nil {
		return cli.BadInput("%s has no section time: write one that has the figures that are to be fitted", gpu.Name)
	}
	files, err := tableFiles(paths)
	if err != nil {
		return err
	}
	show, stop := g.ShowProgress("fit")
	defer stop()
	l := &fitTables{g: g, o: o, show: show, kind: kind, gpu: gpu,
		fit: fit.Fit{Every: o.Every, Progress: show.Part}}
	if err := l.read(ctx, files); err != nil {
		return err
	}
	if l.fit.Others, err = otherKinds(gpu.Name); err != nil {
		return err
	}
	report, err := l.run(ctx)
	if errors.Is(err, validate.ErrNoRow) {
		err = &cli.InputError{Err: err}
	}
	if err != nil && (report == nil || len(report.Tables) == 0) {
		return err
	}
	return errors.Join(err, o.show(g, report))
}

// show writes the report to the file of --output, and prints it.
func (o *fitOptions) show(g *cli.Global, r *fitReport) error {
	if o.Output != "" {
		err := cli.WriteNamed("--output", o.Output, o.force, func(w io.Writer) error { return cli.WriteJSON(w, r) })
		if err != nil {
			return err
		}
	}
	if g.JSON {
		return g.PrintJSON(r)
	}
	return printFit(g.Stdout, r)
}

// otherKinds are the built-in kinds that have times, but one. Times that were estimated from other kinds say nothing of
// their own.
func otherKinds(name string) (all []fit.Kind, err error) {
	gpus, err := configs.GPUs()
	for _, g := range gpus {
		if g.Name != name && g.Time != nil && len(g.Time.EstimatedFrom) == 0 {
			all = append(all, fit.KindOf(g))
		}
	}
	return all, err
}

// fitTables are the tables that a kind is fitted to.
type fitTables struct {
	g       *cli.Global
	o       *fitOptions
	show    *progress.Display
	kind    string // of the GPU: a name, or a file
	gpu     *configs.GPU
	fit     fit.Fit
	reports []*validate.Report // of the tables, without lines, for predictions
}

// read reads the tables of the kind, and asks NCCL for its decisions.
func (l *fitTables) read(ctx context.Context, files []string) error {
	for i, path := range files {
		t, err := l.o.table(path)
		if err != nil {
			l.leaveOut(path, err)
			continue
		}
		upTo := l.upTo(filepath.Base(path))
		if t.GPU != l.gpu.Name || upTo == 0 || t.Between(1, upTo) != nil {
			continue
		}
		l.show.Set(fmt.Sprintf("%d of %d, %s: NCCL decides", i+1, len(files), filepath.Base(path)), progress.Unknown)
		if err := l.add(ctx, path, t); err != nil {
			return err
		}
	}
	if len(l.fit.Tables) == 0 {
		return cli.BadInput("none of %s is a table that %s is fitted to: see fitted_to in `ddlemu gpus %s`",
			units.Count(len(files), "file"), l.gpu.Name, l.gpu.Name)
	}
	return nil
}

// upTo is the largest size of the rows of a table that the kind is fitted to.
func (l *fitTables) upTo(table string) int64 {
	if len(l.gpu.Time.FittedTo) == 0 {
		return math.MaxInt64
	}
	return (&configs.Fabric{GPU: l.gpu, NodeTime: true}).FittedUpTo(table)
}

// leaveOut says that a table is left out.
func (l *fitTables) leaveOut(table string, why error) {
	if !l.g.Quiet {
		fmt.Fprintf(l.g.Stderr, "ddlemu: left out: %s: %v\n", table, why)
	}
}

// options are those for a table, with the kind of GPU that is fitted.
func (l *fitTables) options() (*validateOptions, error) {
	o, err := l.o.forTable(l.g)
	if err == nil {
		o.Model, o.kind = true, l.kind
	}
	return o, err
}

// add adds the rows of a table.
func (l *fitTables) add(ctx context.Context, path string, t *tables.Table) error {
	if slices.Contains(l.fit.Tables, filepath.Base(path)) {
		return cli.BadInput("%s: another table has the same file name: rename one of them", path)
	}
	o, err := l.options()
	if err != nil {
		return err
	}
	v, err := o.options(l.g, path, t)
	if err != nil {
		return err
	}
	defer v.Emulate.Dir.Close()
	e := v.ForModel()
	decided, err := decide(ctx, l.o.Decisions, path, e)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	model, err := decided.Model(e)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for i, c := range decided.Cases {
		l.fit.Rows = append(l.fit.Rows, fit.Row{Row: t.Rows[i], Table: len(l.fit.Tables), Case: c,
			Nodes: t.Nodes,
			Call: func(ctx context.Context, t *configs.GPUTime) (time.Duration, error) {
				e, err := model.Expect(ctx, i, t)
				return e.Time, err
			}})
	}
	l.fit.Tables = append(l.fit.Tables, filepath.Base(path))
	r := v.NewReport(decided.NCCL)
	r.Name, r.Predicted = filepath.Base(path), true
	l.reports = append(l.reports, r)
	return nil
}

// run fits the figures, or predicts the tables that are left out.
func (l *fitTables) run(ctx context.Context) (*fitReport, error) {
	report, own := &fitReport{Kind: l.gpu.Name}, fit.KindOf(l.gpu)
	if len(l.o.Predict) > 0 {
		tables, err := l.toPredict()
		if err != nil {
			return nil, err
		}
		predictions, err := l.fit.Predict(ctx, own, tables)
		for i, p := range predictions {
			r := l.reports[tables[i]]
			r.Lines, r.LeftOut = p.Lines, append(r.LeftOut, p.LeftOut...)
			if len(r.Lines) == 0 {
				l.leaveOut(r.Name, r.NoRow())
				continue
			}
			report.Tables = append(report.Tables, r)
		}
		if err == nil && len(report.Tables) == 0 {
			err = validate.ErrNoRow
		}
		return report, err
	}
	result, err := l.fit.Run(ctx, own)
	if err != nil {
		return nil, err
	}
	for i, c := range result.Constants {
		report.Figures = append(report.Figures, fitFigure{Name: c.Name, Value: c.Text(result.Time),
			Before: c.Text(l.gpu.Time), Given: !result.Free[i]})
	}
	return report, nil
}

// eachTable is the value of --predict for all tables.
const eachTable = "each"

// toPredict are the numbers of the tables of --predict.
func (l *fitTables) toPredict() (tables []int, err error) {
	if len(l.fit.Tables) == 1 {
		return nil, cli.BadInput("--predict: there is no other table than %s to fit figures to", l.fit.Tables[0])
	}
	for _, name := range l.o.Predict {
		i := slices.Index(l.fit.Tables, filepath.Base(name))
		switch {
		case name == eachTable:
			for i := range l.fit.Tables {
				tables = append(tables, i)
			}
		case i < 0:
			return nil, cli.BadInput("--predict: %w",
				configs.Unknown("table that the kind is fitted to", name, l.fit.Tables))
		default:
			tables = append(tables, i)
		}
	}
	slices.Sort(tables)
	return slices.Compact(tables), nil
}

// printFit prints the figures, and the errors of tables that were left out.
func printFit(w io.Writer, r *fitReport) error {
	var out strings.Builder
	if len(r.Figures) > 0 {
		t := cli.NewTable(&out, "figure", "fitted ", "before ")
		for _, f := range r.Figures {
			if f.Given {
				f.Value = "not fitted"
			}
			t.AppendRow([]any{f.Name, f.Value, f.Before})
		}
		t.Render()
	}
	if len(r.Tables) > 0 {
		fmt.Fprintf(&out,
			"# each table by figures that are fitted to the others; errors are percent of the published time\n\n")
		printScores(&out, score.New(r.Tables, nil, nil))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
