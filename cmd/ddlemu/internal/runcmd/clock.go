// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// clockFlags are run's flags for a virtual clock. They take the same values as the variables.
type clockFlags struct {
	compute, hold, deadlock string
}

// addFlags adds the flags of the virtual clock.
func (c *clockFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.compute, "compute", "",
		"virtual clock: `time` of computation: none, or cpu:FACTOR, CPU time times a factor (default \"none\")")
	fs.StringVar(&c.hold, "compute-hold", "",
		"virtual clock: longest real `time` to wait for a thread that computes (default 10s)")
	fs.StringVar(&c.deadlock, "on-deadlock", "",
		"virtual clock: `what` a deadlock is: error, or wait until somebody ends it (default \"error\")")
}

// variables are those that were given as flags.
func (c *clockFlags) variables() (env []string) {
	for _, v := range []struct{ name, value string }{{configs.ComputeEnv, c.compute}, {configs.ComputeHoldEnv, c.hold},
		{configs.OnDeadlockEnv, c.deadlock}} {
		if v.value != "" {
			env = append(env, v.name+"="+v.value)
		}
	}
	return env
}

// settings reads the flags, and the variables in place of those that were not given.
func (c *clockFlags) settings(getenv func(string) string) (configs.ClockSettings, error) {
	given := map[string]struct{ flag, value string }{
		configs.ComputeEnv: {"--compute", c.compute}, configs.ComputeHoldEnv: {"--compute-hold", c.hold},
		configs.OnDeadlockEnv: {"--on-deadlock", c.deadlock},
	}
	s, err := configs.ReadClockSettings(func(name string) string {
		if v := given[name].value; v != "" {
			return v
		}
		return getenv(name)
	})
	if err == nil {
		return s, nil
	}
	// The error begins with the variable's name, but a flag may have been given.
	for name, g := range given {
		if rest, ok := strings.CutPrefix(err.Error(), name+":"); ok && g.value != "" {
			return s, cli.BadInput("%s:%s", g.flag, rest)
		}
	}
	return s, &cli.InputError{Err: err}
}

// check refuses flags for a virtual clock on a fabric that has none.
func (c *clockFlags) check(f *fabric.Fabric) error {
	if len(c.variables()) > 0 && !f.Config.IsVirtual() {
		return cli.BadInput("--compute, --compute-hold and --on-deadlock are for a virtual clock: add --clock virtual")
	}
	return nil
}

// printClockNote says when a job's times are the same in the next run.
func printClockNote(w io.Writer, s configs.ClockSettings) {
	if s.Compute > 0 {
		fmt.Fprintf(w, "clock: virtual, and CPU time times %g is added: not repeatable\n", s.Compute)
		return
	}
	fmt.Fprintln(w,
		"clock: virtual, repeatable if the program's threads wait only for each other, for NCCL and for CUDA")
}

// yieldingMPI is the variable with which Open MPI gives its core away while it polls: by that the software CUDA knows
// that a thread waits. A user's own setting stays.
func yieldingMPI(getenv func(string) string) []string {
	const name = "OMPI_MCA_mpi_yield_when_idle"
	if getenv(name) != "" {
		return nil
	}
	return []string{name + "=1"}
}

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
