// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// budgetRule is the rule for --budget: no rank starts in less.
var budgetRule = cli.Least("budget", time.Second)

// addBudgetFlag adds the flag for the time that a command may take.
func addBudgetFlag(fs *pflag.FlagSet, total *time.Duration) {
	fs.DurationVar(total, "budget", 0,
		"real `time` that the command may take: long rows get fewer iterations or are dropped (default: no limit)")
}

// budget is the budget that --budget gives, the zero value for 0. It begins now.
func budget(total time.Duration) emulate.Budget {
	if total == 0 {
		return emulate.Budget{}
	}
	return emulate.Budget{Total: total, End: time.Now().Add(total)}
}
