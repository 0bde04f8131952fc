// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/intercept/top"
	"github.com/ddlemu/ddlemu/intercept/watch"
)

// framesPerSecond is how often the screen may be drawn: a user sees no difference to more, and it costs less.
const framesPerSecond = 10

// NewTopCommand is `ddlemu top`.
func NewTopCommand(g *cli.Global) *cobra.Command {
	interval := ""
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the links and jobs of a fabric that is up in the terminal, live",
		Long: cli.Long("docs/top.md", `
Show what a fabric that is up does now: the load of each link, its queue, losses and lateness, and
the ranks and the verdict so far of each job. Rates are per second of the fabric's clock.

Keys: s, S sort by the next or previous figure; r reverses; / filters links by name; p shows
ports; v shows verdicts; arrows scroll; q quits. It ends with exit status 0 when the fabric is
taken down. Without a terminal, use "ddlemu status --watch".`),
		Example: `  ddlemu up --profile ndr400 --nodes 4 --clock virtual
  ddlemu top
  ddlemu top --interval 5s`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTop(cmd.Context(), g, interval) },
	}
	cmd.Flags().StringVar(&interval, "interval", defaultInterval.String(), "read the fabric every `interval`")
	g.AddFabricFlag(cmd.Flags())
	return cmd
}

// runTop shows a fabric until the user quits or the fabric is taken down.
func runTop(ctx context.Context, g *cli.Global, every string) error {
	interval, err := parseInterval("--interval", every)
	if err != nil {
		return err
	}
	in, out, err := terminal(g)
	if err != nil {
		return err
	}
	up, err := g.OpenToRead()
	if err != nil {
		return err
	}
	r, err := watch.NewReader(up.File)
	if err != nil {
		up.Close()
		return err
	}
	// The program may end while a sample is under way, which then reads the mapped file.
	var sampling sync.Mutex
	sample := func() (*watch.Sample, error) {
		sampling.Lock()
		defer sampling.Unlock()
		return r.Sample()
	}
	defer func() {
		sampling.Lock() // for good: no sample comes after this
		up.Close()
	}()
	// It handles no signals itself: ctx ends with them.
	last, err := tea.NewProgram(top.New(up.File.Name(), sample, interval),
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithFPS(framesPerSecond),
		tea.WithoutSignalHandler()).Run()
	switch m, ok := last.(top.Model); {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("show the fabric in the terminal: %w", err)
	case ok && errors.Is(m.Err(), watch.ErrGone):
		return sayGone(g, m.Err())
	case ok:
		return m.Err()
	}
	return nil
}

// terminal is the terminal of this process.
func terminal(g *cli.Global) (in, out *os.File, err error) {
	in, isIn := g.Stdin.(*os.File)
	out, isOut := g.Stdout.(*os.File)
	switch {
	case !isIn || !isOut || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())):
		return nil, nil, cli.BadInput("top needs a terminal: use `ddlemu status --watch` for files and pipes")
	case g.Getenv("TERM") == "dumb":
		return nil, nil, cli.BadInput(
			"top needs a terminal that can move its cursor, and TERM is dumb: use `ddlemu status --watch`")
	}
	return in, out, nil
}
