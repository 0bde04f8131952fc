// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/tracecmd"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// traceUsage is the usage of --trace.
const traceUsage = "`folder` for a ledger of each rank: what crossed the links, see `ddlemu messages`"

// makeTrace makes the folder for the ledgers of a job on fabric c and returns its absolute path, "" if none is wanted.
func makeTrace(dir string, c *configs.Fabric) (string, error) {
	if dir == "" {
		return "", nil
	}
	if c.OnKernel() {
		return "", cli.BadInput(
			"--trace: on the kernel datapath the ranks write no ledger: leave it out, or use datapath shm")
	}
	path, err := ledger.MakeFolder(dir)
	if err != nil {
		return "", cli.BadInput("--trace: %w", err)
	}
	return path, nil
}

// trimTrace gives back the disk space that the ledgers of a job that has ended do not need. dir is "" without a trace.
func trimTrace(g *cli.Global, dir string) {
	if dir == "" {
		return
	}
	if err := ledger.Trim(dir); err != nil {
		g.Warn("the trace takes more space than it needs: %v", err)
	}
}

// writeOutcome writes a verdict beside the ledgers of its job. If no rank took part and nothing was recorded, it writes
// nothing: an empty folder can be used again. dir is "" without a trace.
func writeOutcome(dir string, v verdict.Verdict) error {
	if dir == "" {
		return nil
	}
	if paths, err := ledger.Files(dir); v.NoRank && (err != nil || len(paths) == 0) {
		return err
	}
	return report.WriteOutcome(dir, v)
}

// injection is the variable by which the plugin gets the ranges of a program, by NVTX. It says if the user's is kept.
func injection(g *cli.Global, layout locate.Layout) []string {
	env, users := layout.Injection(g.Getenv)
	if users != "" {
		g.Warn("%s=%s is kept, so the program's NVTX ranges are not recorded: unset it to record them",
			locate.InjectionEnv, users)
	}
	return env
}

// defaultStall is shorter than any timeout of a training framework.
const defaultStall = 30 * time.Second

// addStallFlag adds the flag that says when a job is taken to hang.
func addStallFlag(fs *pflag.FlagSet, after *time.Duration) {
	fs.DurationVar(after, "stall", defaultStall,
		"with --trace: print what the ranks wait for if none has posted anything for this `time` (0: never)")
}

// stallRules are the rules for --stall.
var stallRules = []cli.Rule{cli.Least("stall", 0), cli.Needs("stall", "trace", "it reads what the ranks record")}

// stallWatch finds out that nothing goes on any more.
type stallWatch struct {
	after    time.Duration
	records  uint64
	since    time.Time // when records became what it is
	reported bool
}

// update takes the number of records at a time, and says whether a stall is to be reported now: once for each.
func (w *stallWatch) update(records uint64, now time.Time) bool {
	if records != w.records {
		w.records, w.since, w.reported = records, now, false
	}
	if records == 0 || w.reported || now.Sub(w.since) < w.after {
		return false
	}
	w.reported = true
	return true
}

// watchStalls prints what the ranks of a job wait for when they have posted nothing for a time, until stop is called.
// dir is the folder of their ledgers.
func watchStalls(g *cli.Global, dir string, after time.Duration) (stop func()) {
	if dir == "" || after == 0 {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		w := stallWatch{after: after, since: time.Now()}
		tick := time.NewTicker(min(time.Second, after))
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				if w.update(ledger.Progress(dir), now) {
					// A job that only computes waits for nothing.
					tracecmd.TellPending(g, dir,
						fmt.Sprintf("no rank has posted anything for %s; what the ranks wait for", after), false)
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
