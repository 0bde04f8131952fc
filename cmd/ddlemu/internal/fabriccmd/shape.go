// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// The fabric that shape brings up if none is up.
const (
	defaultName    = "default"
	defaultProfile = "loopback"
)

type shapeOptions struct {
	Link string // pattern; empty for all
	Node int    // counts if its flag was given

	Up, Down bool

	flags *pflag.FlagSet
}

func (o *shapeOptions) AddFlags(fs *pflag.FlagSet) {
	flags.AddShape(fs)
	fs.BoolVar(&o.Up, "up", false, "bring the links up")
	fs.BoolVar(&o.Down, "down", false, "take the links down")
	fs.StringVar(&o.Link, "link", "",
		"`links` to change: node0:node1 (both directions), 'node0.nic1>node1.nic1', 'leaf*' (default: all between nodes)")
	fs.IntVar(&o.Node, "node", 0, "change all links of node `N`")
	o.flags = fs
}

// NewShapeCommand is `ddlemu shape`.
func NewShapeCommand(g *cli.Global) *cobra.Command {
	o := &shapeOptions{}
	cmd := &cobra.Command{
		Use:   "shape",
		Short: "Change the links of a fabric, live",
		Long: cli.Long("docs/jobs.md", `
Change the links of the fabric that is up, within a segment's time, for running jobs too. Other
parameters stay. A fabric that a command made for itself is changed only if --fabric or
$DDLEMU_FABRIC names it.

If no fabric is up, bring up one of two nodes with these links, called "`+defaultName+`", and print
the environment that a job needs. With --json, print its state as "ddlemu status --json" does.`),
		Example: `  ddlemu shape --bw 100Gbps --lat 5us
  ddlemu shape --loss 0.1% --link 'node0>node1'
  ddlemu shape --down --node 1
  ddlemu shape --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runShape(cmd.Context(), g, o) },
	}
	o.AddFlags(cmd.Flags())
	g.AddFabricFlag(cmd.Flags())
	g.AddJSONFlag(cmd.Flags())
	err := cmd.RegisterFlagCompletionFunc("link",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return linksThatAreUp(g), cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic(err) // the flag does not exist
	}
	return cli.Ruled(cmd,
		cli.AtMostOne("up down", ""),
		cli.AtMostOne("link node", ""),
		cli.Least("node", 0))
}

// linksThatAreUp are the links between nodes and switches of the fabric that is up, none without one.
func linksThatAreUp(g *cli.Global) (names []string) {
	up, err := g.Open()
	if err != nil {
		return nil
	}
	defer up.Close()
	fab, err := fabricfile.Read(up.File)
	if err != nil {
		return nil
	}
	for i, h := range fab.Hops {
		if h.Kind == link.Link || h.Kind == link.Trunk {
			names = append(names, fab.HopName(i))
		}
	}
	return names
}

// runShape changes links, or brings up a fabric that has them.
func runShape(ctx context.Context, g *cli.Global, o *shapeOptions) error {
	patch, err := o.patch()
	if err != nil {
		return err
	}
	pattern, err := o.pattern()
	if err != nil {
		return err
	}
	if patch.Empty() && !g.JSON {
		return cli.BadInput("nothing to change is given: give %s--up or --down", linkFlags())
	}
	up, err := g.Open()
	switch {
	case errors.Is(err, fs.ErrNotExist) && !patch.Empty() && !namesSwitches(pattern) && !anyUp(g):
		return shapeNew(g, pattern, patch)
	case err != nil:
		return err
	}
	defer up.Close()
	if patch.Empty() {
		return printStatusJSON(g, up.File)
	}
	g.TellPrivate(up.File)
	return shapeExisting(ctx, g, up.File, pattern, patch)
}

// patch is the change that the flags describe.
func (o *shapeOptions) patch() (configs.LinkPatch, error) {
	p, err := flags.Links(o.flags)
	if err != nil {
		return p, err
	}
	if o.Up || o.Down {
		p.Up = new(o.Up)
	}
	return p, nil
}

// linkFlags names the flags that change links, each with a comma after it.
func linkFlags() (text string) {
	for _, m := range configs.LinkParams() {
		if m.Flag != "" {
			text += "--" + m.Flag + ", "
		}
	}
	return text
}

// pattern names the links that the flags select.
func (o *shapeOptions) pattern() (string, error) {
	switch {
	case o.flags.Changed("node"):
		return fmt.Sprintf("node%d", o.Node), nil
	case o.Link == "" || o.Link == "all":
		return "*", nil
	}
	if _, err := configs.ParsePattern(o.Link); err != nil {
		return "", cli.BadInput("--link: %w", err)
	}
	return o.Link, nil
}

// namesSwitches reports whether pattern, which is valid, names links between switches.
// The fabric that shape brings up has none.
func namesSwitches(pattern string) bool {
	p, err := configs.ParsePattern(pattern)
	return err == nil && p.Trunk()
}

// anyUp reports whether any fabric is up.
func anyUp(g *cli.Global) bool {
	dir, err := g.OpenDir(false)
	if err != nil {
		return false
	}
	defer dir.Close()
	names, err := dir.Names()
	return err != nil || len(names) > 0
}

// shapeNew brings up a fabric of two nodes whose links are changed by patch.
func shapeNew(g *cli.Global, pattern string, patch configs.LinkPatch) error {
	c, err := configs.Load(configs.Source{Default: defaultProfile, Getenv: g.Getenv})
	if err != nil {
		return err
	}
	if pattern == "*" {
		c.Shape(patch)
	} else {
		c.Links = append(c.Links, configs.LinkOverride{Match: pattern, LinkPatch: patch})
	}
	fab, err := fabric.New(c)
	if err != nil {
		return err
	}
	name := cmp.Or(g.Named(), defaultName)
	up, err := g.Create(fab, name)
	if err != nil {
		return err
	}
	defer up.Close()
	up.File.Event("up, by shape")
	warnClipped(g, fab, fab.All())
	g.WarnUncontrolled(fab, fab.All())
	if g.JSON {
		return printStatusJSON(g, up.File)
	}
	in, err := cli.InForceOf(fab)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "no fabric was up, so this one is now:\n")
	printUp(g, fab, name, &in)
	g.PrintEnvironment(up)
	return nil
}

// shaped is what a change of a fabric has done.
type shaped struct {
	fab           *fabric.Fabric // as it is now
	before, after []state.HopStatus
	changed       []int // hops
}

// ApplyShape changes a fabric that is up, and returns when the change is in force.
func ApplyShape(ctx context.Context, g *cli.Global, file *state.File, pattern string, patch configs.LinkPatch) (*shaped,
	error) {
	fab, err := fabricfile.Read(file)
	if err != nil {
		return nil, err
	}
	if len(fab.Config.Faults) > 0 {
		return nil, cli.BadInput("fabric %s changes its links by a plan of faults: put this change into the plan", file.Name())
	}
	if fab.Config.OnKernel() && !file.Served() {
		return nil, DaemonGone(file.Name())
	}
	s := &shaped{fab: fab, before: file.Hops()}
	if s.changed, err = fabricfile.ShapeIf(file, pattern, patch, canShape(file, fab)); err != nil {
		return nil, err
	}
	s.after = file.Hops()
	if len(s.changed) > 0 {
		text := eventOf(pattern, &patch)
		if limit := s.downTimeout(file); limit != "" {
			text += "; jobs that need it fail after " + limit
		}
		file.Event(text)
	}
	if fab.Config.OnKernel() {
		if err := waitInForce(ctx, file); err != nil {
			return nil, err
		}
	}
	for i := range s.after {
		fab.Hops[i].Spec = s.after[i].Spec
	}
	return s, nil
}

// shapeExisting changes a fabric that is up, and prints the changes.
func shapeExisting(ctx context.Context, g *cli.Global, file *state.File, pattern string,
	patch configs.LinkPatch) error {
	s, err := ApplyShape(ctx, g, file, pattern, patch)
	if err != nil {
		return err
	}
	warnShaped(g, s.fab, s.changed)
	for _, text := range emulate.UncrossedLinks(s.fab, []string{pattern}, s.crossed()) {
		g.Warn("%s", text)
	}
	if g.JSON {
		return printStatusJSON(g, file)
	}
	var changes []change
	for _, hop := range s.changed {
		if k := s.after[hop].Kind; k == link.Link || k == link.Trunk {
			from, to := s.fab.EndNames(s.fab.Hops[hop].Kind, s.after[hop].Src, s.after[hop].Dst)
			changes = append(changes, change{
				from: from, to: to,
				what: configs.LinkDifference(fabric.LinkOf(s.before[hop].Spec), fabric.LinkOf(s.after[hop].Spec)),
			})
		}
	}
	printChanges(g.Stdout, changes)
	in, err := s.fab.InForce()
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "in force: %s\n", in.Text)
	if limit := s.downTimeout(file); limit != "" {
		fmt.Fprintf(g.Stdout, "a job that needs a link that is down fails after %s\n", limit)
	}
	return nil
}

// crossed are the hops that messages have crossed so far.
func (s *shaped) crossed() (hops []int) {
	for i, h := range s.before {
		if h.Counters.Bytes > 0 {
			hops = append(hops, i)
		}
	}
	return hops
}

// downTimeout is how long a job waits for links that this change has taken down; empty if there are none, see
// [fabricfile.DownLimit].
func (s *shaped) downTimeout(file *state.File) string {
	goesDown := func(hop int) bool { return s.after[hop].Spec.Down && !s.before[hop].Spec.Down }
	if !slices.ContainsFunc(s.changed, goesDown) {
		return ""
	}
	return fabricfile.DownLimit(file, s.fab)
}

// followTimeout is how long a daemon may need to put a change into force.
const followTimeout = 5 * time.Second

// waitInForce waits until the daemon of a fabric has put all changes into force.
func waitInForce(ctx context.Context, file *state.File) error {
	for end := time.Now().Add(followTimeout); ; time.Sleep(2 * time.Millisecond) {
		switch done, ok := file.Followed(); {
		case ctx.Err() != nil:
			return ctx.Err()
		case done && ok:
			return nil
		case done:
			return fmt.Errorf(
				"the change is not in force: the daemon of fabric %s could not make it, see the events of `ddlemu "+
					"status --fabric %[1]s`", file.Name())
		case !file.Served():
			return DaemonGone(file.Name())
		case time.Now().After(end):
			return fmt.Errorf(
				"the change is not in force: the daemon of fabric %s has not made it in %v: is it stopped?",
				file.Name(), followTimeout)
		}
	}
}

// warnShaped warns of changes that were probably not intended: a link that is faster than its port, whose rate only a
// change of the whole node raises, and jitter or reordering that is too large for the latency.
func warnShaped(g *cli.Global, fab *fabric.Fabric, changed []int) {
	for _, hop := range changed {
		if fab.Hops[hop].Kind != link.Link {
			continue
		}
		if port, slower := fab.SlowerPort(hop); slower {
			rate := func(hop int) any { return fabric.LinkOf(fab.Hops[hop].Spec).Bandwidth }
			g.Warn(
				"the bandwidth of link %s is %s, but port %s has %s: change the ports too with --node or "+
					"without --link", fab.HopName(hop), rate(hop), fab.HopName(port), rate(port))
			break
		}
	}
	warnClipped(g, fab, changed)
	g.WarnUncontrolled(fab, changed)
}

// eventOf is the line about a change in the fabric's log.
func eventOf(pattern string, p *configs.LinkPatch) string {
	l, text := configs.Link{}, state.ShapeEvent+pattern
	p.Apply(&l)
	for _, m := range configs.LinkParams() {
		if m.Given(p) {
			text += fmt.Sprintf(" %s=%s", cmp.Or(m.Flag, m.Label), m.Text(&l))
		}
	}
	return text
}
