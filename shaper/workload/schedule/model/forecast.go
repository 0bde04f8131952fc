// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Forecast is what one call of a schedule takes.
type Forecast struct {
	*Result
	Time, Bound float64 // in us; Bound is that of [Place.Bound]
}

// Forecast calculates a call of a schedule at a size in bytes. c is the size as the schedule divides it: if it was
// rounded down, the time is that per byte.
func (p *Place) Forecast(ctx context.Context, s *schedule.Schedule, c *schedule.Cut, size int64) (*Forecast, error) {
	f, err := p.Expect()
	if err != nil {
		return nil, err
	}
	calls := 1
	if s.Whole {
		calls = 2 // in the first one senders wait for receives, which stores do not need
	}
	r, err := Play(ctx, s, c, f, calls)
	if err != nil {
		return nil, err
	}
	t := units.Microseconds(time.Duration(r.Times[calls-1])) * float64(size) / float64(c.Bytes)
	return &Forecast{Result: r, Time: t, Bound: units.Microseconds(p.Bound(s, c))}, nil
}
