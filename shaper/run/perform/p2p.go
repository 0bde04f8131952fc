// SPDX-License-Identifier: Apache-2.0

package perform

import (
	"context"
	"errors"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/play"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/p2p"
)

// P2P is a player that plays a schedule as groups of ncclSend and ncclRecv of real NCCL.
type P2P struct {
	On    func() (emulate.Options, error) // NCCL on the fabric, for one row; its folder is closed after it
	Root  int
	Calls int
	NCCL  string // the version that has played

	verdicts []verdict.Verdict // of the rows
}

// Play starts ranks, which play the calls.
func (p *P2P) Play(ctx context.Context, s *schedule.Schedule, cut *schedule.Cut, inPlace bool, row *Row) (string,
	error) {
	plan, err := p2p.Make(s, cut, inPlace, p.Root)
	if err != nil {
		return "", &configs.Error{Where: "--via p2p", Err: err}
	}
	ix, err := plan.Workload(s.Name).Index()
	if err != nil {
		return "", err
	}
	e, err := p.On()
	if err != nil {
		return "", err
	}
	defer e.Dir.Close()
	out, err := play.Run(ctx, play.Options{On: e, Workload: ix, Groups: plan, Repeat: p.Calls})
	if err != nil {
		return "", err
	}
	var times []time.Duration
	for _, s := range out.Steps {
		times = append(times, s.Time)
	}
	row.SetTimes(times, 1)
	if len(out.Model) > 0 {
		row.Expected = units.Microseconds(out.Model[0].Time)
		row.SetDiff()
	}
	if s.Coll.HasResult() {
		if out.Checked == 0 {
			return "", errors.New("no element was compared")
		}
		row.Wrong = new(uint64(out.Wrong))
	}
	p.verdicts, p.NCCL = append(p.verdicts, out.Verdict), out.Facts.NCCL
	return out.Problem, nil
}

// Verdict is the verdict on the first row that is not VALID, or of the last.
func (p *P2P) Verdict() (verdict.Verdict, bool) {
	for i, v := range p.verdicts {
		if !v.Valid || i == len(p.verdicts)-1 {
			return v, true
		}
	}
	return verdict.New(nil), false
}
