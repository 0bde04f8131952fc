// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

const expectExitFlag = "expect-exit"

// addExpectExitFlag adds the flag for ranks whose exit is expected.
func addExpectExitFlag(fs *pflag.FlagSet, ranks *[]string) {
	fs.StringSliceVar(ranks, expectExitFlag, nil,
		"`rank` that must die or fail: that is no reason for INVALID then; else exit status 1; may be repeated")
}

// expectedExits reads the ranks of the flag, or the ranks of the environment if the flag is not given.
func expectedExits(given []string, getenv func(string) string) (ranks []int, err error) {
	name := "--" + expectExitFlag
	if text := getenv(job.ExitEnv); given == nil && text != "" {
		name, given = job.ExitEnv, strings.Split(text, ",")
	}
	for _, text := range given {
		rank, err := configs.ParseInt(text)
		if err != nil || rank < 0 {
			return nil, cli.BadInput("%s: %q is not a rank: write its number, several with commas, such as 1,3", name,
				text)
		}
		ranks = append(ranks, rank)
	}
	ranks = slices.Compact(slices.Sorted(slices.Values(ranks)))
	if len(ranks) > state.MaxExits {
		return nil, cli.BadInput("%s: %d ranks: at most %d", name, len(ranks), state.MaxExits)
	}
	return ranks, nil
}

// missedExits is the error of exits that were expected and not seen, nil if there is none.
func missedExits(exits []verdict.Exit) error {
	var ranks []string
	for _, e := range exits {
		if !e.Seen {
			ranks = append(ranks, fmt.Sprint(e.Rank))
		}
	}
	switch len(ranks) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("--%s %s: the rank has not died: it ended with status 0, or did not take part",
			expectExitFlag, ranks[0])
	}
	return fmt.Errorf("--%s %s: these ranks have not died: they ended with status 0, or did not take part",
		expectExitFlag, strings.Join(ranks, ","))
}
