// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	BenchOptions
	Begin, End string // sizes of the rows to take, "" for all
	Model, All bool
	Apart      string
	Intervals  string
	Predicted  []string
	pictures   pictures
	// kind is the file of the kind of GPU that takes the place of the table's; "" for a kind that is built in.
	kind string
}

// AddFlags adds the flags to fs.
func (o *validateOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.addFabricFlags(g, fs)
	o.addSizeFlags(fs)
	fs.BoolVar(&o.Model, "model", false, "only calculate expected times with the link model, which takes seconds")
	fs.BoolVar(&o.All, "all", false, "compare all tables of the files and folders, and sum up their errors")
	fs.StringVar(&o.Apart, "apart", "",
		"with --all: `file` with lines \"NAME: REASON\" of tables to list apart, and not to "+
			"sum up")
	fs.StringVar(&o.Intervals, "intervals", "",
		"with --all and --model: `file` for the intervals of healthy clusters' times; it is replaced")
	fs.StringArrayVar(&o.Predicted, "predicted", nil,
		"with --all and --model: `file` of \"ddlemu fit --predict\", used for fitted rows; may be repeated")
	o.pictures.addFlags(fs)
	o.junit.addFlag(fs, "row")
	addBudgetFlag(fs, &o.Budget)
	g.AddQuietFlag(fs)
	g.AddJSONFlag(fs)
	g.AddVerboseFlag(fs)
}

func (o *validateOptions) addSizeFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&o.Begin, "minbytes", "b", "", "smallest `size` of the table's rows to take")
	fs.StringVarP(&o.End, "maxbytes", "e", "", "largest `size` of the table's rows to take")
}

// NewValidateCommand is `ddlemu validate`.
func NewValidateCommand(g *cli.Global) *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:   "validate TABLE | validate --all FOLDER_OR_TABLE...",
		Short: "Compare the emulator with a table measured on a real cluster",
		Long: `Run the sizes of a published table of nccl-tests with real NCCL on an emulated fabric, and print
the published, expected and emulated time of each row. The error may be 5 % from 16 MiB on, 15 %
below. The table is CSV with the columns bytes and time_us, or a log of nccl-tests; lines
"# key: value" describe the cluster. On the real clock similar rows run together, and rows that
this host cannot carry are left out. --all compares many tables, and sums up their errors.

Exit status: 0; 1 if a row is not within its limit or a rank failed; 2 for bad input or if nothing
can be run; 3 if INVALID or a row was stopped; 130 if interrupted (the report has the rows so far).
Page: docs/validation.md`,
		Example: `  ddlemu validate configs/tables/t4_1gpu_2node_efa.csv
  ddlemu validate configs/tables/t4_1gpu_2node_efa.csv --profile t4-efa --model
  ddlemu validate --all configs/tables --model --svg tables.svg`,
		Args: cli.AtLeast(1, "validate takes a table: see `ddlemu validate --help`"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.All {
				return runValidateAll(cmd.Context(), g, &o, args)
			}
			if len(args) > 1 {
				return cli.BadInput("validate takes one table, with --all several: see `ddlemu validate --help`")
			}
			return runValidate(cmd.Context(), g, &o, args[0])
		},
	}
	o.AddFlags(g, cmd.Flags())
	return cli.Ruled(cmd,
		budgetRule,
		cli.Needs("apart intervals predicted", "all", ""),
		cli.Needs("intervals predicted", "model", "it has times of the model"),
		cli.Excludes("model", "budget", "nothing is run"),
		cli.Excludes("all", "fabric", "each table has a fabric of its own"))
}

func runValidate(ctx context.Context, g *cli.Global, o *validateOptions, path string) error {
	within := budget(o.Budget)
	pictures, err := o.pictures.check([]string{path})
	if err != nil {
		return err
	}
	if err := o.junit.begin(); err != nil {
		return err
	}
	show, stop := g.ShowProgress("validate")
	defer stop()
	t, err := o.table(path)
	if err != nil {
		return cli.BadInput("%s: %w", path, err)
	}
	r, err := o.compare(ctx, g, path, t, within, show.Set)
	if _, bad := errors.AsType[*cli.InputError](err); bad {
		return err
	}
	if o.junit.path != "" {
		err = errors.Join(err, o.junit.write(validateSuite(filepath.Base(path), r, err)))
	}
	if errors.Is(err, validate.ErrNoRow) {
		return &cli.InputError{Err: err}
	}
	if r == nil {
		return err
	}
	err = errors.Join(err, o.pictures.write(pictures, []*validate.Report{r}))
	if g.JSON {
		err = errors.Join(err, g.PrintJSON(r))
	} else {
		err = errors.Join(err, printValidation(g.Stdout, r, g.More()))
	}
	switch {
	case err != nil:
		return err
	case len(r.Reasons) > 0:
		return &cli.InvalidError{Word: r.Verdict, Summary: r.Summary}
	case len(r.Outside()) > 0:
		return fmt.Errorf("%d of %d rows exceed their limits", len(r.Outside()), len(r.Lines))
	}
	return nil
}

// compare compares the emulator with the table of a file. There is a report beside the error if it was interrupted.
func (o *validateOptions) compare(ctx context.Context, g *cli.Global, path string, t *tables.Table,
	within emulate.Budget, show emulate.Progress) (*validate.Report, error) {
	v, err := o.options(g, path, t)
	if err != nil {
		return nil, err
	}
	defer v.Emulate.Dir.Close()
	v.Emulate.Budget, v.Emulate.Progress = within, show
	play := v.Run
	if o.Model {
		play = v.Expect
	}
	r, err := play(ctx)
	if r != nil {
		r.Name = filepath.Base(path)
		r.MarkFitted(v.Emulate.Config.FittedUpTo(r.Name))
	}
	return r, err
}

// table reads the table and removes the rows outside -b and -e.
func (o *validateOptions) table(path string) (*tables.Table, error) {
	f, err := openTable(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file, err := tables.Read(f)
	if err != nil {
		return nil, err
	}
	t, err := file.One()
	if err != nil {
		return nil, err
	}
	low, high := int64(0), int64(math.MaxInt64)
	for _, s := range []struct {
		flag, text string
		to         *int64
	}{{"-b", o.Begin, &low}, {"-e", o.End, &high}} {
		if s.text == "" {
			continue
		}
		if *s.to, err = bench.ParseSize(s.text); err != nil {
			return nil, fmt.Errorf("%s %s: %w", s.flag, s.text, err)
		}
	}
	return t, t.Between(low, high)
}

// placeTable sets the flags that were not given to what a complete table says of its cluster. A fabric that is up has
// its own. kind is the kind of GPU; nodeTime takes the links of the system that has such GPUs.
func (o *BenchOptions) placeTable(g *cli.Global, t *tables.Table, kind string, nodeTime bool) error {
	// With a GPU, or a path, --nccl has another meaning.
	if (t.NCCL != "" || t.GPU != "") && (o.Soft || !locate.HasGPU()) {
		version := t.NearestNCCL()
		if t.Domains() < t.Nodes {
			version = nvlinkNCCL
		}
		if err := o.setUnlessGiven("the table's", "nccl", version); err != nil {
			return err
		}
	}
	if g.Fabric != "" {
		return nil
	}
	if !o.Flags.Changed("profile") && !o.Flags.Changed("file") {
		profile, err := t.Profile(t.Domains(), nodeTime)
		if err != nil {
			return err
		}
		o.Profile = profile
	}
	settings := [][2]string{{"ranks", strconv.Itoa(t.Ranks)}, {"nodes", strconv.Itoa(t.Nodes)}, {"cpu", t.CPU}}
	if !o.Flags.Changed("gpu") { // how NVLinks connect another kind is not the table's
		settings = append(settings, [2]string{"gpu", kind}, [2]string{"nvlink", t.NVLink})
		if domain := max(t.NVLinkDomain, t.GPUsPerNode); t.GPU != "" && domain > 0 {
			settings = append(settings, [2]string{"nvlink-domain", strconv.Itoa(domain)})
		}
	}
	if t.NICsPerNode > 0 && !o.Flags.Changed("file") {
		settings = append(settings, [2]string{"nics-per-node", strconv.Itoa(t.NICsPerNode)})
	}
	for _, s := range settings {
		if err := o.setUnlessGiven("the table's", s[0], s[1]); err != nil {
			return err
		}
	}
	return nil
}

// place sets the flags that were not given to what the table says. Nodes cost time where it is known what: with
// --model, unless a flag or a variable says otherwise, or another kind of GPU than the table's.
func (o *validateOptions) place(g *cli.Global, t *tables.Table) error {
	return o.placeTable(g, t, cmp.Or(o.kind, t.GPU), o.Model && !o.Flags.Changed("gpu") && !o.nodeTimeOff(g))
}

// options collects what the run needs. The caller closes the folder.
func (o *validateOptions) options(g *cli.Global, path string, t *tables.Table) (v validate.Options, err error) {
	if err := o.place(g, t); err != nil {
		return v, cli.BadInput("%s: %w", path, err)
	}
	v.Table, o.onlyModel, o.nodeTimeIfKnown = t, o.Model, o.Model
	v.Emulate, err = o.setup(g, bench.Config{Stderr: g.Stderr})
	if err != nil {
		return v, err
	}
	c := &v.Emulate.Config
	if v.Emulate.Bench.Ranks != t.Ranks || c.Nodes != t.Nodes {
		v.Emulate.Dir.Close()
		return v, cli.BadInput("the table is of %d ranks on %d nodes, the fabric has %d on %d", t.Ranks, t.Nodes,
			v.Emulate.Bench.Ranks, c.Nodes)
	}
	v.Memory = host.Machine{Getenv: g.Getenv}.AvailableMemory()
	return v, nil
}
