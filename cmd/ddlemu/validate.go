// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/bench/validate"
	"github.com/ddlemu/ddlemu/shaper/host"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	benchOptions
	Model bool
}

// AddFlags adds the flags.
func (o *validateOptions) AddFlags(g *global, fs *pflag.FlagSet) {
	o.addFabricFlags(g, fs)
	fs.StringVarP(&o.Begin, "minbytes", "b", "", "smallest `size` of the table's rows to take")
	fs.StringVarP(&o.End, "maxbytes", "e", "", "largest `size` of them")
	fs.BoolVar(&o.Model, "model", false, "compare with what the link model expects, without a run: seconds")
	g.addJSONFlag(fs)
}

func newValidateCommand(g *global) *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:   "validate TABLE.csv",
		Short: "Hold the emulator against a table measured on a real cluster",
		Long: `Reads a published table of nccl-tests and runs its sizes with real NCCL on an emulated
fabric. For each row it prints what was published, what the link model expects, what
the emulated run took, and the error, which may be 5 % from 16 MiB on and 15 % below.

The table is CSV with the columns bytes and time_us, and before them lines
"# key: value": collective, ranks, nodes, env (NCCL_ALGO and others that NCCL decides
by), source, system. See configs/tables/README.md.

Rows whose times are alike run together, for about a minute, at the largest time scale
that there is time for, or a larger one if this host needs it. A row is left out, and
that is said, if its buffers would take more than half of the memory that is available,
or three calls of it more than 5 minutes. If this host cannot carry the fabric at any
time scale, its rows are left out too, and the verdict is INVALID.

EXIT STATUS
===========

0 if every row that was run is within its limit, 1 if one is not or a rank failed, 2
for bad input or if no row can be run here, 3 if the verdict is INVALID, 130 if
interrupted.
`,
		Example: `  ddlemu validate configs/tables/t4_1gpu_2node_efa.csv --profile t4-efa
  ddlemu validate configs/tables/t4_1gpu_2node_efa.csv --profile t4-efa --model`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return badInput("validate takes one table: see `ddlemu validate --help`")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runValidate(cmd.Context(), g, &o, args[0]) },
	}
	o.AddFlags(g, cmd.Flags())
	return cmd
}

func runValidate(ctx context.Context, g *global, o *validateOptions, path string) error {
	t, err := o.table(path)
	if err != nil {
		return &inputError{fmt.Errorf("%s: %w", path, err)}
	}
	v, err := o.options(g, t)
	if err != nil {
		return err
	}
	defer v.Emulate.Dir.Close()
	play := t.Run
	if o.Model {
		play = t.Expect
	}
	r, err := play(ctx, v)
	if errors.Is(err, validate.ErrNoRow) {
		return &inputError{err}
	}
	if err != nil {
		return err
	}
	r.Name = filepath.Base(path)
	if g.JSON {
		err = g.printJSON(r)
	} else {
		err = printValidation(g.Stdout, r)
	}
	switch {
	case err != nil:
		return err
	case len(r.Reasons) > 0:
		return &invalidError{r.Reasons}
	case len(r.Outside()) > 0:
		return fmt.Errorf("%d of %d rows are beyond their limits", len(r.Outside()), len(r.Lines))
	}
	return nil
}

// table reads the table and leaves the rows asked for.
func (o *validateOptions) table(path string) (*validate.Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := validate.Read(f)
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

// options finds what the run needs. The caller closes the folder.
func (o *validateOptions) options(g *global, t *validate.Table) (v validate.Options, err error) {
	if o.Ranks == 0 {
		o.Ranks = t.Ranks
	}
	v.Emulate, err = o.setup(g, bench.Config{Stderr: g.Stderr})
	if err != nil {
		return v, err
	}
	c := &v.Emulate.Config
	if v.Emulate.Bench.Ranks != t.Ranks || c.Nodes != t.Nodes {
		v.Emulate.Dir.Close()
		return v, badInput("the table is of %d ranks on %d nodes, the fabric has %d on %d", t.Ranks, t.Nodes, v.Emulate.Bench.Ranks, c.Nodes)
	}
	v.Memory = host.Machine{Getenv: g.Getenv}.AvailableMemory()
	return v, nil
}
