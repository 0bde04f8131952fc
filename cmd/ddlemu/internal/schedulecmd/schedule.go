// SPDX-License-Identifier: Apache-2.0

// Package schedulecmd has the command schedule: collectives as steps of thread blocks.
package schedulecmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/convert"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// NewScheduleCommand is `ddlemu schedule`.
func NewScheduleCommand(g *cli.Global) *cobra.Command {
	run := newScheduleRunCommand(g)
	cmd := &cobra.Command{
		Use:   "schedule FILE.xml",
		Short: "Run, check and make schedules of collectives (MSCCL XML)",
		Long: cli.Long("docs/schedules.md", `
Run, check, make and compare schedules: which thread block sends, receives, adds up and copies
which chunk, in which order. A schedule is a file of MSCCL's XML, or one that ddlemu makes.
"ddlemu schedule FILE.xml" is "ddlemu schedule run FILE.xml".`),
		Example: `  ddlemu schedule algo.xml --profile ndr400 -b 1K -e 1M -f 4
  ddlemu schedule check algo.xml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !isSource(args[0]) {
				return cli.KnownCommand(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if err := cmp.Or(run.Args(run, args), run.PreRunE(run, args)); err != nil {
				return err
			}
			return run.RunE(cmd, args)
		},
	}
	cmd.Flags().AddFlagSet(run.Flags())
	cmd.AddCommand(run, newScheduleCheckCommand(g), newScheduleMakeCommand(g), newScheduleExportCommand(g),
		newScheduleCompareCommand(g), newScheduleSweepCommand(g))
	return cmd
}

// isSource says whether an argument names a schedule rather than a command: a file, or a kind that is made.
func isSource(arg string) bool {
	name, _, _ := strings.Cut(arg, ":")
	return slices.Contains(makeKinds, name) || strings.ContainsAny(arg, "./") || arg == "-"
}

// makers make schedules, by the name of the kind.
var (
	makers = map[string]func(mk.Options) (*schedule.Schedule, error){
		"ring": mk.Ring, "allpairs": mk.AllPairs, "tree": mk.BinaryTree, "chain": mk.Chain,
		"double-binary": mk.DoubleBinary,
	}
	makeKinds = []string{"ring", "allpairs", "tree", "chain", "double-binary"}
)

// scheduleMakeOptions are the flags that say what to make.
type scheduleMakeOptions struct {
	Coll, Grain, Proto string
	GPUs, K            int
	OutOfPlace         bool
	flags              *pflag.FlagSet
}

func (o *scheduleMakeOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Coll, "coll", "all_gather",
		"`collective` of a schedule that is made: all_gather, reduce_scatter or all_reduce")
	fs.IntVar(&o.K, "k", 1, "rings, blocks per pair or trees per root of a schedule that is made")
	fs.StringVar(&o.Grain, "grain", "",
		"largest payload of a message, a `size` (default: the size of NCCL's buffers, 1M with Simple)")
	fs.IntVar(&o.GPUs, "gpus", 8, "`number` of GPUs of a schedule that is made")
	fs.StringVar(&o.Proto, "proto", "Simple", "`protocol` of a schedule that is made: Simple, LL or LL128")
	fs.BoolVar(&o.OutOfPlace, "out-of-place", false, "make an all-gather for calls out of place")
	o.flags = fs
}

// options are the flags as values. The error for a name that is not known lists the collectives of.
func (o *scheduleMakeOptions) options(of []schedule.Collective) (mk.Options, error) {
	coll, err := schedule.ParseCollective(o.Coll)
	if err != nil {
		return mk.Options{}, cli.BadInput("--coll: %w", configs.Unknown("collective", o.Coll, schedule.Names(of)))
	}
	grain, err := parseGrain(o.Grain)
	if err != nil {
		return mk.Options{}, err
	}
	switch p := schedule.Protocol(o.Proto); p {
	case schedule.Simple, schedule.LL, schedule.LL128:
		return mk.Options{Coll: coll, GPUs: o.GPUs, K: o.K, Grain: grain, Proto: p, OutOfPlace: o.OutOfPlace}, nil
	}
	return mk.Options{}, cli.BadInput("--proto %s: must be Simple, LL or LL128", o.Proto)
}

func parseGrain(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := bench.ParseSize(text)
	if err == nil && (n < 256 || n > 1<<30 || n%4 != 0) {
		err = errors.New("must be 256 bytes to 1G, a multiple of 4")
	}
	if err != nil {
		return 0, cli.BadInput("--grain %s: %w", text, err)
	}
	return n, nil
}

// make makes a schedule from text such as ring or ring:k=8,grain=256K, of which the flags are the defaults.
func (o *scheduleMakeOptions) make(text string) (*schedule.Schedule, error) {
	kind, settings, _ := strings.Cut(text, ":")
	m, err := o.options(mk.Collectives)
	if err != nil {
		return nil, err
	}
	for _, setting := range strings.FieldsFunc(settings, func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(setting, "=")
		switch key {
		case "k":
			m.K, err = strconv.Atoi(value)
		case "grain":
			m.Grain, err = parseGrain(value)
		default:
			err = errors.New("must be k=NUMBER or grain=SIZE")
		}
		if err != nil {
			return nil, cli.BadInput("%s: %s: %w", text, setting, err)
		}
	}
	s, err := makers[kind](m)
	if err != nil {
		return nil, cli.BadInput("%s: %w", text, err)
	}
	return s, nil
}

// readOne is read of the only schedule of a command: flags that have no effect on a file are refused.
func (o *scheduleMakeOptions) readOne(g *cli.Global, arg string) (*schedule.Schedule, error) {
	kind, _, _ := strings.Cut(arg, ":")
	for _, flag := range []string{"k", "gpus"} {
		if o.flags.Changed(flag) && makers[kind] == nil {
			return nil, cli.BadInput("--%s is for a schedule that is made (%s): %s has its own", flag,
				strings.Join(makeKinds, ", "), arg)
		}
	}
	return o.read(g, arg)
}

// read reads the schedule that an argument names, or makes it.
func (o *scheduleMakeOptions) read(g *cli.Global, arg string) (*schedule.Schedule, error) {
	if kind, _, _ := strings.Cut(arg, ":"); slices.Contains(makeKinds, kind) {
		return o.make(arg)
	}
	in := g.Stdin
	if arg != "-" {
		f, err := os.Open(arg)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, cli.BadInput("%s: there is no such file: give MSCCL XML, or one of %s", arg,
				strings.Join(makeKinds, ", "))
		}
		if err != nil {
			return nil, &cli.InputError{Err: err}
		}
		defer f.Close()
		in = f
	}
	m, err := o.options(schedule.Collectives)
	if err != nil {
		return nil, err
	}
	s, err := convert.Read(in, arg, m, o.flags.Changed("coll"))
	if err != nil {
		return nil, &cli.InputError{Err: err}
	}
	if m.Grain > 0 {
		s.Grain = m.Grain
	}
	return s, nil
}

// nameOf is the name of a schedule for tables.
func nameOf(arg string) string { return strings.TrimSuffix(filepath.Base(arg), ".xml") }

// scheduleFabric are the flags of the fabric that a schedule runs on.
type scheduleFabric struct {
	fabriccmd.SourceOptions
	inForce configs.InForce
}

// place is the fabric with the GPUs on it. Unless a flag says otherwise, the clock is virtual. On a profile, unless
// --nodes is given, each GPU is a node of its own.
func (o *scheduleFabric) place(g *cli.Global, gpus int) (*model.Place, error) {
	var unset configs.Fabric
	c, err := flags.Load(configs.Source{Profile: o.Profile, File: o.File, Unset: &unset, Getenv: g.Getenv}, o.Flags)
	if err != nil {
		return nil, err
	}
	o.inForce = c.InForce(&unset)
	if c.GPU != nil {
		o.inForce.GPUTime = "none (a schedule takes the time of the links between nodes only)"
	}
	if o.Flags.Changed("node-time") && c.NodeTime {
		return nil, cli.BadInput("--set node_time=on: a schedule takes the time of the links between nodes only: leave it out")
	}
	if c.OnKernel() {
		return nil, cli.BadInput("a schedule runs on the datapath shm: leave out --set datapath=kernel")
	}
	if !o.Flags.Changed("clock") && !o.Flags.Changed("time-scale") {
		c.Clock = configs.VirtualClock
	}
	if !o.Flags.Changed("nodes") && o.File == "" {
		c.Nodes = gpus
	}
	fab, err := fabric.New(c)
	if err != nil {
		return nil, err
	}
	p, err := model.NewPlace(fab, gpus)
	if err != nil {
		return nil, &cli.InputError{Err: err}
	}
	return p, nil
}

// printInForce prints the lines of a header that say what the fabric has in force, and what GPUs cost, if it has some.
func printInForce(w io.Writer, in *configs.InForce) {
	fmt.Fprintf(w, "# in force: %s\n", in.Text)
	if in.GPUTime != "" {
		fmt.Fprintf(w, "# GPU time: %s\n", in.GPUTime)
	}
}

// sizeOptions are the sizes of a table, with nccl-tests' flags.
type sizeOptions struct{ bench.Range }

func (o *sizeOptions) AddFlags(fs *pflag.FlagSet, begin, end int64) {
	o.Range = bench.Range{Begin: begin, End: end, Factor: 4}
	fs.VarP(cli.Size(&o.Begin), "minbytes", "b", "smallest `size`")
	fs.VarP(cli.Size(&o.End), "maxbytes", "e", "largest `size`")
	fs.Int64VarP(&o.Factor, "stepfactor", "f", o.Factor, "factor from one row to the next")
}

func (o *sizeOptions) sizes() ([]int64, error) {
	sizes, err := o.Range.Sizes()
	if err != nil {
		return nil, &cli.InputError{Err: err}
	}
	return sizes, nil
}

// oneSource refuses anything but one argument.
func oneSource(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.BadInput("%s takes one schedule: a file, or %s", cmd.CommandPath(), strings.Join(makeKinds, ", "))
	}
	return nil
}

// oneKind refuses anything but one kind of schedule.
func oneKind(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || makers[args[0]] == nil {
		return cli.BadInput("%s takes one kind of schedule: ring, allpairs, tree, chain or double-binary", cmd.Name())
	}
	return nil
}

// describeSchedule is a schedule in a few words.
func describeSchedule(s *schedule.Schedule) string {
	var places []string
	for _, inPlace := range s.Variants() {
		places = append(places, bench.Place(inPlace))
	}
	if s.Summary != "" {
		return fmt.Sprintf("%s on %s, %s, %s, %s", s.Coll, units.Count(len(s.GPUs), "GPU"), s.Proto,
			strings.Join(places, " and "), s.Summary)
	}
	return fmt.Sprintf("%s on %s, %s, %s, %s, at most %s, %s, %s", s.Coll, units.Count(len(s.GPUs), "GPU"), s.Proto,
		strings.Join(places, " and "),
		units.Count(s.LoopChunks, "chunk"), units.Count(s.MostBlocks(), "block"), units.Count(s.Channels, "channel"),
		units.Count(s.Steps(), "step"))
}
