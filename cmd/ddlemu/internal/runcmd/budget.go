// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// leastBudget is the smallest --budget: no rank starts in less.
const leastBudget = time.Second

// addBudgetFlag adds the flag for the time that a command may take.
func addBudgetFlag(fs *pflag.FlagSet, total *time.Duration) {
	fs.DurationVar(total, "budget", 0,
		"real `time` that the command may take: long rows get fewer iterations or are dropped (default: no limit)")
}

// budget is the budget that --budget gives. It begins now.
func budget(fs *pflag.FlagSet, total time.Duration) (emulate.Budget, error) {
	if !fs.Changed("budget") {
		return emulate.Budget{}, nil
	}
	if total < leastBudget {
		return emulate.Budget{}, cli.BadInput("--budget %v: must be at least %v", total, leastBudget)
	}
	return emulate.Budget{Total: total, End: time.Now().Add(total)}, nil
}
