// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/chakra"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/overview"
)

type workloadConvertOptions struct {
	OutputOptions
	From, To string
	Ranks    int
	Experts  int
	MaxOps   int
	SPMD     bool
	Type     string
}

func (o *workloadConvertOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.From, "from", "", "the `format` of the files; by default what they look like")
	fs.StringVar(&o.To, "to", string(formats.Native), "the `format` to write: ddlemu, chakra or goal")
	fs.StringVarP(&o.Output, "output", "o", "",
		"`file` to write, or for chakra the begin of the files' names (default: -, standard output)")
	fs.IntVar(&o.Ranks, "ranks", 0, "the `number` of ranks, if the files do not say it")
	fs.IntVar(&o.Experts, "experts", 0,
		"the `number` of ranks of an expert parallel group, if the file of AICB does not say it")
	fs.BoolVar(&o.SPMD, "spmd", true, "let the file of one rank stand for all ranks")
	fs.StringVar(&o.Type, "type", "", "the `type` of the elements, such as bfloat16, if the files do not say it")
	fs.IntVar(&o.MaxOps, "max-ops", input.MaxOps,
		"the maximum `number` of calls and operations to read; each takes about 1 KB of memory")
	fs.BoolVar(&o.Force, "force", false, "replace files that exist")
	o.addNCCLFlag(fs)
}

func newWorkloadConvertCommand(g *cli.Global) *cobra.Command {
	o := &workloadConvertOptions{}
	cmd := &cobra.Command{
		Use:   "convert FILE...",
		Short: "Make a workload of traces and files of other tools, or the reverse",
		Long: cli.Long("docs/formats.md", `
Read files of one job that other tools recorded or wrote, and write a workload: kineto and
pytorchet (PyTorch), chakra, goal, simai, aicb, opcsv, nccllog, flightrec, inspector,
ncclprofiler and nsys. They may be packed by gzip; - is standard input.

What a source does not say is printed, and noted in the workload. Workloads can also be written as
Chakra, one file OUT.RANK.et per rank, and as GOAL if they have no collectives.`),
		Example: `  ddlemu workload convert rank0.pt.trace.json.gz -o job.jsonl
  ddlemu workload convert ops.csv --ranks 8 --type bfloat16 -o ops.jsonl
  ddlemu workload convert job.jsonl --to chakra -o job`,
		Args: cli.AtLeast(1, "convert takes the files of a job: see `ddlemu workload convert --help`"),
		RunE: func(cmd *cobra.Command, args []string) error { return runWorkloadConvert(cmd.Context(), g, o, args) },
	}
	o.AddFlags(cmd.Flags())
	g.AddQuietFlag(cmd.Flags())
	return cli.Ruled(cmd,
		cli.Among("from", kindNames()...),
		cli.Among("to", string(formats.Native), string(formats.Chakra), string(formats.GOAL)),
		cli.Range("ranks experts", 1, workload.MaxRanks),
		cli.Range("max-ops", 1, workload.MaxOps),
		cli.Needs("to="+string(formats.Chakra), "output", "each rank has a file, whose name begins so"),
		cli.Excludes("to="+string(formats.Chakra), "output=-", "each rank has a file"),
		cli.Needs("nccl-env", "to="+string(formats.Native), "it is for the head of a workload"))
}

// convertMemory is the memory in bytes that convert needs at most for [input.MaxOps] operations.
const convertMemory = 420 << 20

func runWorkloadConvert(ctx context.Context, g *cli.Global, o *workloadConvertOptions, files []string) error {
	if err := o.checkFlags(); err != nil {
		return err
	}
	if o.MaxOps <= input.MaxOps {
		// The heap would grow to twice the memory in use; near the limit, garbage is collected more often instead.
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(convertMemory))
	}
	show, stop := g.ShowProgress("workload convert")
	defer stop()
	in, done, err := inputs(ctx, g, files)
	if err != nil {
		return err
	}
	defer done()
	follow := input.Follow(ctx, in, func(part float64) { show.Part("reading", part) })
	w, err := formats.Read(follow, formats.Kind(o.From),
		input.Options{Ranks: o.Ranks, Experts: o.Experts, OneForAll: o.SPMD, Type: o.Type, MaxOps: o.MaxOps})
	if err != nil {
		return cli.BadInput("%w", err)
	}
	show.Set("checking", progress.Unknown)
	ix, err := w.Index()
	if err != nil {
		return cli.BadInput("%s: %w", files[0], err)
	}
	if err := matches(ctx, cmp.Or(o.Output, "the workload"), ix); err != nil {
		if ctx.Err() != nil {
			return err
		}
		w.Head.Source.Notes = append(w.Head.Source.Notes, "the calls do not match: "+err.Error())
	}
	if err := o.AddNCCL(&w.Head); err != nil {
		return err
	}
	show.Set("writing", progress.Unknown)
	report := g.Stdout
	if o.Output == "" {
		report = g.Stderr
	}
	out := &outputs{stdout: g.Stdout, path: o.Output, force: o.Force}
	if err := formats.Write(w, formats.Kind(o.To), out.create); err != nil {
		out.discard()
		return cli.BadInput("write %s as %s: %w", files[0], o.To, err)
	}
	if err := out.finish(); err != nil {
		return err
	}
	printConverted(report, o.Output, ix)
	if formats.Kind(o.To) == formats.Chakra {
		printForSimulator(report, w, out)
	}
	return nil
}

// printForSimulator says what in a Chakra trace is not as in the workload, and what ASTRA-sim takes.
func printForSimulator(report io.Writer, w *workload.Workload, written *outputs) {
	lines.Print(report, "note: %s\n", chakra.Notes(w))
	groups := ""
	if name := written.path + chakra.GroupsEnding; slices.Contains(written.names, name) {
		groups = " --comm-group-configuration=" + name
	}
	fmt.Fprintf(report, "for ASTRA-sim: --workload-configuration=%s%s\n", written.path, groups)
}

// inputs are the files of these names. Files are opened several times, so standard input is kept in one until done is
// called.
func inputs(ctx context.Context, g *cli.Global, names []string) (files []input.File, done func(), err error) {
	files, done = input.Paths(names), func() {}
	for i, name := range names {
		if name != cli.StandardInput {
			continue
		}
		if slices.Contains(names[:i], name) {
			done()
			return nil, nil, cli.BadInput("-: standard input is one file")
		}
		const most = 64 << 30
		if files[i], done, err = input.Spool(ctx, "standard input", g.Stdin, most); err != nil {
			return nil, nil, err
		}
	}
	return files, done, nil
}

// checkFlags refuses flags that cannot work before anything is read.
func (o *workloadConvertOptions) checkFlags() error {
	if o.Type != "" {
		if _, err := workload.TypeSize(o.Type); err != nil {
			return cli.BadInput("--type: %w", err)
		}
	}
	if formats.Kind(o.To) == formats.Chakra {
		return nil // the names of the files are not known yet
	}
	return o.Check()
}

func kindNames() []string {
	names := []string{string(formats.Native)}
	for _, k := range formats.Kinds() {
		names = append(names, string(k))
	}
	return names
}

// printConverted says what was made, and what the source did not say. The calls and bytes of each function are there
// to be compared with what the user knows of the job.
func printConverted(out io.Writer, path string, ix *workload.Index) {
	w := ix.Workload
	calls := 0
	for i := range w.Ops {
		for range w.Ops[i].Parts() {
			calls++
		}
	}
	s := w.Head.Source
	if path == "" {
		path = "standard output"
	}
	fmt.Fprintf(out, "%s: %s of %s, %s\n", path, units.Count(len(w.Ops), "operation"),
		units.Count(w.Head.Ranks, "rank"), units.Count(calls, "call"))
	from := []string{s.File, s.Hardware}
	from = slices.DeleteFunc(from, func(text string) bool { return text == "" })
	fmt.Fprintln(out, "from "+strings.TrimSuffix(s.Kind+": "+strings.Join(from, ", "), ": "))
	for _, c := range overview.Totals(ix) {
		of := ""
		if c.Ranks < w.Head.Ranks {
			of = fmt.Sprintf(" of %d", c.Ranks)
		}
		calls := rangeOf(c.Calls, whole) + " calls"
		if c.Calls.Most == 1 {
			calls = units.Count(int(c.Calls.Most), "call")
		}
		fmt.Fprintf(out, "%s: %s per rank%s, %s\n", c.Func, calls, of, rangeOf(c.Bytes, bytesText))
	}
	lines.Print(out, "not said by the source: %s\n", s.Missing)
	lines.Print(out, "note: %s\n", s.Notes)
}

// outputs are files that get their names only when all of them are whole.
type outputs struct {
	stdout io.Writer
	path   string // "" for standard output
	force  bool
	files  []*os.File
	names  []string
}

// keptOpen is a writer that stays open.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

// create makes a file whose name is the path and the ending.
func (o *outputs) create(ending string) (io.WriteCloser, error) {
	if o.path == "" {
		return keptOpen{o.stdout}, nil
	}
	name := o.path + ending
	if err := cli.CheckFile("-o", name, o.force); err != nil {
		return nil, err
	}
	f, err := cli.CreateBeside(name)
	if err != nil {
		return nil, err
	}
	o.files, o.names = append(o.files, f), append(o.names, name)
	return f, nil
}

// finish gives the files their names.
func (o *outputs) finish() error {
	for i, f := range o.files {
		if err := errors.Join(os.Chmod(f.Name(), 0o644), os.Rename(f.Name(), o.names[i])); err != nil {
			o.discard()
			return fmt.Errorf("write %s: %w", o.names[i], err)
		}
	}
	return nil
}

// discard removes what has no name yet.
func (o *outputs) discard() {
	for _, f := range o.files {
		os.Remove(f.Name())
	}
}
