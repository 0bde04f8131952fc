// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/job"
	"github.com/ddlemu/ddlemu/shaper/run/perform"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// Player plays schedules with real bytes, on a fabric of its own.
type Player struct {
	perform.Model
	place    *model.Place
	root     int
	progress func(part float64)
	job      *job.Job
	file     *state.File
	played   bool
}

var _ perform.Player = (*Player)(nil)

// NewPlayer brings up the fabric of a place in dir. m gives the expected times; root is the root of a rooted
// collective.
func NewPlayer(ctx context.Context, dir *state.Dir, place *model.Place, m perform.Model, root int,
	progress func(part float64)) (*Player, error) {
	j, err := job.Start(ctx, dir, place.Fabric, "schedule")
	if err != nil {
		return nil, err
	}
	file, err := dir.Open(j.Name())
	if err != nil {
		_ = j.Close()
		return nil, err
	}
	return &Player{Model: m, place: place, root: root, progress: progress, job: j, file: file}, nil
}

// Close takes the fabric down.
func (p *Player) Close() {
	// The fabric is removed; errors of closing what was only read have no consequence.
	_ = p.file.Close()
	_ = p.job.Close()
}

// Play executes calls, and the calculation of them. Of buffers that do not fit into half of this host's free memory
// there is only the calculation.
func (p *Player) Play(ctx context.Context, s *schedule.Schedule, cut *schedule.Cut, inPlace bool,
	row *perform.Row) (note string, err error) {
	if _, err := p.Model.Play(ctx, s, cut, inPlace, row); err != nil {
		return "", err
	}
	need := memory(s, cut, inPlace, p.root)
	if free := (host.Machine{}).AvailableMemory(); free > 0 && need > free/2 {
		return fmt.Sprintf("%d bytes are only calculated: they need %s, and half of the free memory is %s", cut.Bytes,
			units.Volume(need), units.Volume(free/2)), nil
	}
	w, err := joinToPerform(p.file, p.place.Fabric, p.job.Key())
	if err != nil {
		return "", err
	}
	defer w.Close()
	out, err := w.Perform(ctx, Performance{Schedule: s, Cut: *cut, Place: p.place, InPlace: inPlace, Root: p.root,
		Calls: p.Calls, Progress: p.progress})
	if err != nil {
		return "", err
	}
	p.played = true
	row.SetTimes(out.Times, p.place.Fabric.TimeScale())
	row.SetDiff()
	if s.Coll.HasResult() {
		row.Wrong = &out.Wrong
	}
	return "", nil
}

// Verdict is the verdict on all calls; false if there was none.
func (p *Player) Verdict() (verdict.Verdict, bool) {
	if !p.played {
		return p.Model.Verdict()
	}
	v := p.job.Verdict()
	p.job.JudgeLinkChanges(&v) // the fabric is the job's own, so nothing is returned
	return v, true
}
