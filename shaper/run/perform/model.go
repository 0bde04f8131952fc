// SPDX-License-Identifier: Apache-2.0

package perform

import (
	"context"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// Model is a player that only calculates.
type Model struct {
	On    *expect.Fabric
	Calls int // timed, behind one that is not
}

// Play calculates the times of calls.
func (m *Model) Play(ctx context.Context, s *schedule.Schedule, cut *schedule.Cut, _ bool, row *Row) (string, error) {
	r, err := model.Play(ctx, s, cut, m.On, m.Calls+1)
	if err != nil {
		return "", err
	}
	var times []time.Duration
	for _, t := range r.Times[1:] {
		times = append(times, time.Duration(t))
	}
	row.SetTimes(times, 1)
	row.Expected, row.Loads = row.Avg, r.Loads
	return "", nil
}

// Verdict is not known.
func (m *Model) Verdict() (verdict.Verdict, bool) { return verdict.New(nil), false }
