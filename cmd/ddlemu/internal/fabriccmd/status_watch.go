// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/intercept/watch"
)

// Intervals between two looks at a fabric.
const (
	defaultInterval  = time.Second
	shortestInterval = 100 * time.Millisecond // a look costs this host time beside the ranks
)

// parseInterval reads an interval that the user gave.
func parseInterval(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, cli.BadInput("%s: %q is not a time with its unit, such as 2s", name, text)
	case d < shortestInterval:
		return 0, cli.BadInput("%s: %v is too short: give %v or longer", name, d, shortestInterval)
	}
	return d, nil
}

// runWatch prints what a fabric does, every interval.
func runWatch(ctx context.Context, g *cli.Global, interval time.Duration) error {
	up, err := g.OpenToRead()
	if err != nil {
		return err
	}
	defer up.Close()
	r, err := watch.NewReader(up.File)
	if err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	err = watch.Each(ctx, r.Sample, tick.C, func(v *watch.View) error { return printView(g, v) })
	if errors.Is(err, watch.ErrGone) {
		return sayGone(g, err)
	}
	return err
}

// printView prints what a fabric did, at once, so that a pipe shows it. An error ends the command: nobody reads on.
func printView(g *cli.Global, v *watch.View) error {
	if g.JSON {
		line, err := json.Marshal(v.Document())
		if err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		return printLine(g, string(line))
	}
	for _, line := range v.Lines() {
		if err := printLine(g, line); err != nil {
			return err
		}
	}
	return nil
}

func printLine(g *cli.Global, line string) error {
	_, err := fmt.Fprintln(g.Stdout, line)
	return err
}

// sayGone says that the fabric was taken down, which ends a command that watches it.
func sayGone(g *cli.Global, err error) error {
	_, err = fmt.Fprintf(g.Stderr, "ddlemu: %v\n", err)
	return err
}
