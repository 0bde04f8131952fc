// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/shaper/report/sweep"
)

// sweepUsage is the help of --sweep.
const sweepUsage = "%s for several values of a parameter of all links, such as `bw=10G..800G`, lat=1us,10us or " +
	"loss=1e-6..1%%"

// noFabric is why a sweep is not on a fabric that is up.
const noFabric = "a sweep makes fabrics of its own, of a --profile or --file"

// trial is one of several things that are compared, each on a fabric of its own.
type trial[R any] struct {
	name string // as the user gave it
	play func() (R, error)
	end  func() // gives back what play needs
}

// trials are played one after the other, and ended together.
type trials[R any] []trial[R]

func (all trials[R]) end() {
	for _, t := range all {
		t.end()
	}
}

// play returns the results of all, or with an error the results before it.
func (all trials[R]) play() (results []R, err error) {
	for _, t := range all {
		r, err := t.play()
		if err != nil {
			return results, fmt.Errorf("%s: %w", t.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// overValues plays for each value of --sweep, which text gives. prepare makes a trial of the user's flags with a value;
// which says which one it is, for the progress. An interruption comes with the results of the values before it, if
// there are some; any other error has no results.
func overValues[R any](ctx context.Context, text string, given *pflag.FlagSet,
	prepare func(fs *pflag.FlagSet, which string) (trial[R], error)) (*sweep.Values, []R, error) {
	v, err := sweep.Parse(text)
	if err != nil {
		return nil, nil, cli.BadInput("--sweep %s: %w", text, err)
	}
	var all trials[R]
	defer func() { all.end() }()
	for i, value := range v.List {
		fs, err := with(given, func(flag string) bool { return flag == v.Param })
		if err == nil {
			err = flags.Set(fs, v.Param, value.Text)
		}
		if err != nil {
			return nil, nil, cli.BadInput("--sweep %s=%s: %w", v.Param, value.Text, err)
		}
		name := fmt.Sprintf("--sweep %s at %s", text, value.Text)
		t, err := prepare(fs, fmt.Sprintf("%s %s, %d of %d", v.Param, value.Text, i+1, len(v.List)))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		t.name = name
		all = append(all, t)
	}
	results, err := all.play()
	if ctx.Err() == nil && err != nil {
		results = nil
	}
	return v, results, err
}
