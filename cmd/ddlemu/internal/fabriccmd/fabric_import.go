// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/configs/importer"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
)

type fabricImportOptions struct {
	cli.FileOption
	Base  string
	flags *pflag.FlagSet
}

func (o *fabricImportOptions) AddFlags(fs *pflag.FlagSet) {
	o.AddOutputFlags(fs, "`file` to write, or - (default: standard output)")
	fs.StringVar(&o.Base, "base", "",
		"`profile` or fabric file whose values count where the file has none, such as the latency of the links")
	flags.AddFabric(fs)
	o.flags = fs
}

func newFabricImportCommand(g *cli.Global) *cobra.Command {
	o := &fabricImportOptions{}
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Make a fabric file of another tool's network or node file",
		Long: cli.Long("docs/import.md", `
Read a file of another tool and write a fabric file, with comments that say what was found and
what was assumed. It reads NCCL's topology of a node and NCCL's graph (XML), topologies of SimAI,
ns-3 and htsim, and ASTRA-sim's network. - is standard input.

NCCL's topology has no latency and may have no speed: give --lat and --bw, or a profile as --base.`),
		Example: `  ddlemu fabric import topo.xml --lat 2us -o node.yaml
  ddlemu fabric import topo.xml graph.xml --lat 2us -o node.yaml
  ddlemu fabric import ndv5-topo.xml --base ndr400 --set nvlinks_per_gpu=18 --nodes 4
  ddlemu fabric import AlibabaHPN_1024g SimAI.conf --nodes 16 -o hpn.yaml
  ddlemu fabric import leaf_spine.topo -o leaf-spine.yaml`,
		Args: cli.AtLeast(1, "import takes a file of another tool: see `ddlemu fabric import --help`"),
		RunE: func(cmd *cobra.Command, args []string) error { return runFabricImport(cmd.Context(), g, o, args) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// runFabricImport makes a fabric file of files of another tool.
func runFabricImport(_ context.Context, g *cli.Global, o *fabricImportOptions, names []string) error {
	o.TakeDash()
	if err := o.CheckOutput(); err != nil {
		return err
	}
	options, err := o.options()
	if err != nil {
		return err
	}
	files, err := importFiles(g, names)
	if err != nil {
		return err
	}
	in, err := importer.Read(files, options)
	if err != nil {
		if in != nil {
			printFound(g.Stderr, in) // standard output is for the fabric
		}
		return cli.BadInput("%w", err)
	}
	for i, f := range files {
		names[i] = f.Name
	}
	if err := o.missing(names[0], in); err != nil {
		return err
	}
	text, f, err := o.fabric(in, names)
	if err != nil {
		return err
	}
	if o.Output == "" {
		_, err = g.Stdout.Write(text)
		printFound(g.Stderr, in)
		return err
	}
	if err := cli.WriteFile("-o", o.Output, o.Force, 0o644,
		func(out io.Writer) error { _, err := out.Write(text); return err }); err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "%s: fabric %s of %s, %s each\n", o.Output, f.Name, units.Count(f.Nodes, "node"),
		units.Count(f.NICsPerNode, "NIC"))
	printFound(g.Stdout, in)
	return nil
}

// options are what the flags say for the reader of a file.
func (o *fabricImportOptions) options() (found.Options, error) {
	var options found.Options
	if o.Base != "" {
		base, err := configs.Load(configs.Source{Profile: o.Base, Getenv: noVariable})
		if err != nil {
			return options, fmt.Errorf("--base: %w", err)
		}
		options.Base = base
	}
	if f := o.flags.Lookup("nodes"); f.Changed {
		var err error
		if options.Nodes, err = configs.ParseInt(f.Value.String()); err != nil {
			return options, cli.BadInput("--nodes: %w", err)
		}
	}
	return options, nil
}

// noVariable is an environment without variables.
func noVariable(string) string { return "" }

// importFiles reads the files.
func importFiles(g *cli.Global, names []string) ([]importer.File, error) {
	var files []importer.File
	for _, name := range names {
		in := io.NopCloser(g.Stdin)
		if name != cli.StandardInput {
			f, err := os.Open(name)
			if err != nil {
				return nil, cli.BadInput("%w", err)
			}
			in = f
		}
		data, err := io.ReadAll(io.LimitReader(in, importer.MaxFile+1))
		in.Close()
		if err != nil {
			return nil, cli.BadInput("read %s: %w", name, err)
		}
		if len(data) > importer.MaxFile {
			return nil, cli.BadInput("%s has more than %d bytes: a network or node of another tool is smaller", name,
				importer.MaxFile)
		}
		if name == cli.StandardInput {
			name = "standard input"
		}
		files = append(files, importer.File{Name: name, Text: string(data)})
	}
	return files, nil
}

// missing asks for all values that the file does not have and the flags do not give.
func (o *fabricImportOptions) missing(name string, in *found.Fabric) error {
	var what, give []string
	for _, m := range in.Missing {
		if !o.flags.Changed(m.Flag) {
			what, give = append(what, m.What), append(give, spelling(m.Flag))
		}
	}
	if what == nil {
		return nil
	}
	or := ", or the profile of such a network as --base"
	if o.Base != "" {
		or = "; the base has none"
	}
	return cli.BadInput("%s does not have %s: give %s%s", name, andList(what), andList(give), or)
}

// spelling is how a user gives the setting whose flag has this name.
func spelling(flag string) string {
	for _, s := range configs.Settings() {
		if s.Flag == flag {
			return s.Spelling()
		}
	}
	return "--" + flag
}

func andList(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// fabric is the fabric with the flags applied, and its text.
func (o *fabricImportOptions) fabric(in *found.Fabric, names []string) ([]byte, *configs.Fabric, error) {
	draft, err := in.Config.Encode()
	if err != nil {
		return nil, nil, err
	}
	f, err := flags.Load(configs.Source{File: names[0], Text: draft, Getenv: noVariable}, o.flags)
	if err != nil {
		// The line is one of the draft, which the user does not see.
		if e, ok := errors.AsType[*configs.Error](err); ok && !strings.HasPrefix(e.Where, "--") {
			err = &configs.Error{Where: names[0], Field: e.Field, Err: e.Err}
		}
		return nil, nil, err
	}
	text, err := importer.Text(f, in, names)
	return text, f, err
}

// printFound prints the facts and notes of an import.
func printFound(w io.Writer, in *found.Fabric) {
	if in.Kind != "" {
		fmt.Fprintf(w, "%s\n", in.Kind)
	}
	lines.Print(w, "  %s\n", in.Says)
	lines.Print(w, "note: %s\n", in.Notes)
}
