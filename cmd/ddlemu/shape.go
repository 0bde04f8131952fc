// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Of the fabric that shape brings up when there is none.
const (
	defaultName    = "default"
	defaultProfile = "loopback"
)

type shapeOptions struct {
	Link string // pattern; empty for all
	Node int    // -1 for none

	Up, Down bool

	flags *pflag.FlagSet
}

func (o *shapeOptions) AddFlags(fs *pflag.FlagSet) {
	flags.AddShape(fs)
	fs.BoolVar(&o.Up, "up", false, "bring the links up")
	fs.BoolVar(&o.Down, "down", false, "take the links down")
	fs.StringVar(&o.Link, "link", "", "`links` to change: A:B for both directions, 'A>B' for one, as node0:node1 or node0.nic1:node1.nic1, between switches as leaf0:spine1 or 'leaf*' (default: all between nodes)")
	fs.IntVar(&o.Node, "node", -1, "change all links of node `N`")
	o.flags = fs
}

func newShapeCommand(g *global) *cobra.Command {
	o := &shapeOptions{}
	cmd := &cobra.Command{
		Use:   "shape",
		Short: "Change the links of a fabric, live",
		Long: `Change the links of the fabric that is up. It takes effect within a segment's time,
for running jobs too. What is not given stays as it is.

With no fabric up, bring up one of two nodes with these links, called "` + defaultName + `", and
print the environment that a job needs to run on it.

With --json, print what is in force afterwards as "ddlemu status --json" does; with
nothing to change, print it as it is.

` + exitHelp,
		Example: `  ddlemu shape --bw 100Gbps --lat 5us
  ddlemu shape --loss 0.1% --link 'node0>node1'
  ddlemu shape --down --node 1
  ddlemu shape --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runShape(cmd.Context(), g, o) },
	}
	o.AddFlags(cmd.Flags())
	g.addFabricFlag(cmd.Flags())
	g.addJSONFlag(cmd.Flags())
	return cmd
}

// runShape changes links, or brings up a fabric that has them.
func runShape(ctx context.Context, g *global, o *shapeOptions) error {
	patch, err := o.patch()
	if err != nil {
		return err
	}
	pattern, err := o.pattern()
	if err != nil {
		return err
	}
	if patch.Empty() && !g.JSON {
		return badInput("nothing to change is given: give %s--up or --down", linkFlags())
	}
	up, err := g.open()
	switch {
	case errors.Is(err, fs.ErrNotExist) && !patch.Empty() && !namesSwitches(pattern) && !g.anyUp():
		return g.shapeNew(pattern, patch)
	case err != nil:
		return err
	}
	defer up.Close()
	if patch.Empty() {
		return g.printStatus(up.File)
	}
	return g.shapeOld(ctx, up.File, pattern, patch)
}

// patch is the change that the flags ask for.
func (o *shapeOptions) patch() (configs.LinkPatch, error) {
	p, err := flags.Links(o.flags)
	if err != nil {
		return p, err
	}
	switch {
	case o.Up && o.Down:
		return p, badInput("both --up and --down are given: give one of them")
	case o.Up || o.Down:
		up := o.Up
		p.Up = &up
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

// pattern is the links that the flags name.
func (o *shapeOptions) pattern() (string, error) {
	switch {
	case o.Node >= 0 && o.Link != "":
		return "", badInput("both --link and --node are given: give one of them")
	case o.flags.Changed("node") && o.Node < 0:
		return "", badInput("--node: %d is not a node: nodes count from 0", o.Node)
	case o.Node >= 0:
		return fmt.Sprintf("node%d", o.Node), nil
	case o.Link == "" || o.Link == "all":
		return "*", nil
	}
	if _, err := configs.ParsePattern(o.Link); err != nil {
		return "", badInput("--link: %w", err)
	}
	return o.Link, nil
}

// namesSwitches says whether pattern, which is valid, is of links between switches: of
// these the fabric that shape brings up has none.
func namesSwitches(pattern string) bool {
	p, err := configs.ParsePattern(pattern)
	return err == nil && p.Trunk()
}

// anyUp says whether the folder has any fabric at all.
func (g *global) anyUp() bool {
	dir, err := g.openDir(false)
	if err != nil {
		return false
	}
	defer dir.Close()
	names, err := dir.Names()
	return err != nil || len(names) > 0
}

// shapeNew brings up a fabric of two nodes whose links are changed by patch.
func (g *global) shapeNew(pattern string, patch configs.LinkPatch) error {
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
	name := firstOf(g.named(), defaultName)
	up, err := g.create(fab, name)
	if err != nil {
		return err
	}
	defer up.Close()
	up.File.Event("up, by shape")
	g.warnClipped(fab, fab.All())
	if g.JSON {
		return g.printStatus(up.File)
	}
	fmt.Fprintf(g.Stdout, "no fabric was up, so this one is now:\n")
	g.printUp(fab, name)
	g.printEnvironment(up)
	return nil
}

// shapeOld changes a fabric that is up.
func (g *global) shapeOld(ctx context.Context, file *state.File, pattern string, patch configs.LinkPatch) error {
	fab, err := live.Fabric(file)
	if err != nil {
		return err
	}
	if fab.Config.OnKernel() && !file.Served() {
		return daemonGone(file.Name())
	}
	before := file.Hops()
	changed, err := live.ShapeIf(file, pattern, patch, canShape(file, fab))
	if err != nil {
		return err
	}
	after := file.Hops()
	var changes []change
	for _, hop := range changed {
		if k := after[hop].Kind; k == state.Link || k == state.Trunk {
			from, to := fab.EndNames(fab.Hops[hop].Kind, after[hop].Src, after[hop].Dst)
			changes = append(changes, change{
				from: from, to: to,
				what: difference(fabric.LinkOf(before[hop].Spec), fabric.LinkOf(after[hop].Spec)),
			})
		}
	}
	if len(changed) > 0 {
		file.Event(eventOf(pattern, &patch))
	}
	if fab.Config.OnKernel() {
		if err := inForce(ctx, file); err != nil {
			return err
		}
	}
	for i := range after {
		fab.Hops[i].Spec = after[i].Spec
	}
	g.warnShaped(fab, changed)
	if g.JSON {
		return g.printStatus(file)
	}
	printChanges(g.Stdout, changes)
	return nil
}

// followPatience is how long a daemon may take to put a change into force.
const followPatience = 5 * time.Second

// inForce waits until the daemon of a fabric has put all changes into force.
func inForce(ctx context.Context, file *state.File) error {
	for end := time.Now().Add(followPatience); ; time.Sleep(2 * time.Millisecond) {
		switch done, ok := file.Followed(); {
		case ctx.Err() != nil:
			return ctx.Err()
		case done && ok:
			return nil
		case done:
			return fmt.Errorf("the change is not in force: the daemon of fabric %s could not make it, see the events of `ddlemu status --fabric %[1]s`", file.Name())
		case !file.Served():
			return daemonGone(file.Name())
		case time.Now().After(end):
			return fmt.Errorf("the change is not in force: the daemon of fabric %s has not made it in %v: is it stopped?", file.Name(), followPatience)
		}
	}
}

// printStatus prints the state of a fabric as JSON.
func (g *global) printStatus(file *state.File) error {
	s, err := statusOf(file)
	if err != nil {
		return err
	}
	return g.printJSON(s)
}

// warnShaped says what a change came to that was hardly meant: links faster than the port
// they come out of, which only a change of the whole node raises, and jitter that the
// latency has no room for.
func (g *global) warnShaped(fab *fabric.Fabric, changed []int) {
	for _, hop := range changed {
		if fab.Hops[hop].Kind != fabric.Link {
			continue
		}
		if port, slower := fab.SlowerPort(hop); slower {
			rate := func(hop int) any { return fabric.LinkOf(fab.Hops[hop].Spec).Bandwidth }
			g.warn("link %s has %s, but port %s has %s: change the ports too with --node or without --link", fab.HopName(hop), rate(hop), fab.HopName(port), rate(port))
			break
		}
	}
	g.warnClipped(fab, changed)
}

// warnClipped says that jitter makes some of the hops late in the mean.
func (g *global) warnClipped(fab *fabric.Fabric, hops []int) {
	if text := fab.Clipped(hops); text != "" {
		g.warn("%s", text)
	}
}

// eventOf is a change as a line of the fabric's log.
func eventOf(pattern string, p *configs.LinkPatch) string {
	l, text := configs.Link{}, "shape "+pattern
	p.Apply(&l)
	for _, m := range configs.LinkParams() {
		if m.Given(p) {
			text += fmt.Sprintf(" %s=%s", cmp.Or(m.Flag, m.Label), m.Text(&l))
		}
	}
	return text
}
