// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"os"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/bench/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/run/job"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
)

// AddLeast adds to least the minimum of bytes that calls of a communicator move between each node and the others.
// node returns the node of a rank of the communicator. Launches of a case is how often it was called.
func AddLeast(least map[int]job.Traffic, f *fabric.Fabric, node func(rank int) int, calls []bench.Case) {
	times := expected.New(f, node, os.Getenv)
	for _, c := range calls {
		times.Move(c)
	}
	for n, t := range times.Least() {
		sum := least[n]
		sum.Out += t.Out
		sum.In += t.In
		least[n] = sum
	}
}

// Unchecked adds what could not be checked, because of cause; "" adds nothing. It is a reason for INVALID if the run is
// strict, else a note.
func (o *Options) Unchecked(v *verdict.Verdict, cause verdict.Cause, what string) {
	o.unchecked(v, cause, what)
}

// Limit returns a context that ends when the budget is spent. Then Spent is true of it.
func (b Budget) Limit(ctx context.Context) (context.Context, context.CancelFunc) { return b.limit(ctx) }

// Spent says that a context of Limit has ended because the budget is spent.
func Spent(ctx context.Context) bool {
	_, spent := whyStopped(ctx)
	return spent
}

// Left is the real time until the budget is spent, without the time that ranks need to end.
func (b Budget) Left() time.Duration { return time.Until(b.End) - endGrace }

// endGrace is the time in which ranks end.
const endGrace = time.Second
