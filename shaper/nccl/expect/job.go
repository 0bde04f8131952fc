// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// JobEstimate is the model's expectation for a job.
type JobEstimate struct {
	Spans [][]player.Span // by rank and item
	// Random says that links of the job have random jitter or loss, or that the order of connections that are ready at
	// the same instant is random: the times are of one run.
	Random bool
}

// SimulateJob returns when each item of each rank starts and ends if the hosts cost nothing but [Fabric.Nodes]. If the
// model does not know a schedule, it returns an error and never a guess. It returns early when ctx is done.
func SimulateJob(ctx context.Context, j *plan.Job, f *Fabric) (*JobEstimate, error) {
	e, err := job(ctx, j, f, choose())
	if err != nil {
		return nil, fmt.Errorf("expected time of the job: %w", err)
	}
	return e, nil
}

func job(ctx context.Context, j *plan.Job, f *Fabric, p player.Player) (*JobEstimate, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	spans, random, err := p.Job(ctx, j, f)
	if err != nil {
		return nil, err
	}
	return &JobEstimate{Spans: spans, Random: random || !f.InOrder}, nil
}
