// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// stopped is a fabric whose measurement is interrupted while the run of this number is made, from 1.
type stopped struct {
	*fake
	at, run int
	stop    func()
}

func (s *stopped) Run(ctx context.Context, flows []Flow, d, tail time.Duration) ([]Trace, error) {
	if s.run++; s.run == s.at {
		s.stop()
		return nil, ctx.Err()
	}
	return s.fake.Run(ctx, flows, d, tail)
}

// An interrupted measurement reports the links that it has measured, and no others.
func TestInterrupted(t *testing.T) {
	slow := func(c *configs.Fabric) { c.Link.Bandwidth = 9 * units.Gbps }
	t.Run("sound", func(t *testing.T) { interruptEach(t, 4, nil) })
	t.Run("measured again", func(t *testing.T) { interruptEach(t, 2, slow) })
}

// interruptEach interrupts the measurement of a fabric of nodes in each of its runs.
func interruptEach(t *testing.T, nodes int, change func(*configs.Fabric)) {
	all := newFake(t, star(nodes), change).measured(t)
	before := 0 // whole links of the last interrupt
	for at := 1; ; at++ {
		ctx, stop := context.WithCancel(t.Context())
		s := &stopped{fake: newFake(t, star(nodes), change), at: at, stop: stop}
		r, err := Measure(ctx, s.asked, s, Options{Time: 6 * time.Second})
		stop()
		if err == nil {
			break // it makes fewer runs
		}
		if !errors.Is(err, context.Canceled) || r == nil || r.Verdict != verdict.Incomplete {
			t.Fatalf("in run %d: %+v, %v", at, r, err)
		}
		n := len(r.Links)
		if want := fmt.Sprintf("interrupted: %d of %d links measured", n, len(all.Links)); len(r.Reasons) != 1 ||
			r.Reasons[0] != want {
			t.Errorf("in run %d: %q, want %q", at, r.Reasons, want)
		}
		for _, l := range r.Links {
			if l.Rate.Got == 0 || l.Latency.Known == 0 || l.Tries < 1 || (len(l.Problems) > 0) != (change != nil) {
				t.Errorf("in run %d: %s is not whole: %+v", at, l.Name, l)
			}
		}
		if n < before {
			t.Errorf("in run %d: %d links, %d one run before", at, n, before)
		}
		before = n
	}
	if before != len(all.Links) {
		t.Errorf("in the last run %d links were measured, want %d", before, len(all.Links))
	}
}
