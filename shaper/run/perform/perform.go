// SPDX-License-Identifier: Apache-2.0

// Package perform runs a schedule of a collective on a fabric, over sizes: how long its calls take, by how much that
// differs from the expected time, and whether the results are right. What moves the bytes is a [Player]: the link
// model alone ([Model]), ncclSend and ncclRecv ([P2P]), or the plugin's connections (nccl-plugin/drive).
package perform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// elem is the size of an element in bytes: int32.
const elem = 4

// Player plays calls of a schedule.
type Player interface {
	// Play plays calls at the size of a row and fills in its times and what was wrong. note says what could not be done.
	Play(ctx context.Context, s *schedule.Schedule, cut *schedule.Cut, inPlace bool, row *Row) (note string, err error)
	// Verdict is that on what the links carried; known is false if no byte was sent.
	Verdict() (v verdict.Verdict, known bool)
}

// Row is what calls of one size took. The tags are the names under --json.
type Row struct {
	Size     uint64   `json:"size"`
	Count    uint64   `json:"count"`
	Place    string   `json:"place"`
	Avg      float64  `json:"avg_us"`
	Min      float64  `json:"min_us"`
	Expected float64  `json:"expected_us"`
	Diff     *float64 `json:"diff_percent"` // nil: only calculated
	Bound    float64  `json:"bound_us,omitempty"`
	Wrong    *uint64  `json:"wrong"` // nil: not checked
	Busbw    float64  `json:"busbw_gbs"`

	Loads []expect.Load `json:"-"` // of the hops by one call, the busiest first
}

// Algbw is bytes per second at a time in us.
func (r *Row) Algbw(us float64) float64 { return float64(r.Size) / us * 1e6 }

// SetTimes sets the mean and the least time of calls that took so long at a time scale.
func (r *Row) SetTimes(times []time.Duration, scale int) {
	r.Avg = 0
	for _, t := range times {
		r.Avg += units.Microseconds(t) / float64(len(times))
	}
	r.Avg /= float64(scale)
	r.Min = units.Microseconds(slices.Min(times)) / float64(scale)
}

// SetDiff sets the difference of the mean time from the expected one.
func (r *Row) SetDiff() { r.Diff = new(100 * (r.Avg/r.Expected - 1)) }

// Report is what a run found. The tags are the names under --json.
type Report struct {
	Schedule string          `json:"schedule"`
	Coll     string          `json:"collective"`
	GPUs     int             `json:"gpus"`
	Fabric   string          `json:"fabric"`
	Via      string          `json:"via"`
	NCCL     string          `json:"nccl,omitempty"`
	Rows     []Row           `json:"rows"`
	Notes    []string        `json:"notes,omitempty"`
	Verdict  string          `json:"verdict,omitempty"`
	Reasons  []string        `json:"reasons,omitempty"`
	InForce  configs.InForce `json:"fabric_in_force,omitzero"` // what the fabric has in force

	Judged *verdict.Verdict `json:"-"` // nil if no byte was to be sent
}

// Wrong is the number of elements that were wrong.
func (r *Report) Wrong() (wrong uint64) {
	for i := range r.Rows {
		if w := r.Rows[i].Wrong; w != nil {
			wrong += *w
		}
	}
	return wrong
}

// Run runs a schedule, which is called name, at sizes in bytes, each in the places for which it is made. If ctx ends
// meanwhile, the report has the rows so far and an incomplete verdict; after another error there is none.
func Run(ctx context.Context, name string, s *schedule.Schedule, place *model.Place, sizes []int64, p Player) (*Report,
	error) {
	r := &Report{Schedule: name, Coll: string(s.Coll), GPUs: len(s.GPUs), Fabric: place.Fabric.Config.Name, Rows: []Row{}}
	failed := r.fill(ctx, s, place, sizes, p)
	if failed != nil && ctx.Err() == nil {
		return nil, failed
	}
	v, known := p.Verdict()
	if failed != nil {
		v.Stop("interrupted: the output has the rows so far")
	}
	if known || failed != nil {
		r.Judged, r.Verdict, r.Reasons = &v, string(v.Word), v.Reasons
	}
	return r, failed
}

// fill adds the rows of all sizes, and notes what could not be measured.
func (r *Report) fill(ctx context.Context, s *schedule.Schedule, place *model.Place, sizes []int64, p Player) error {
	var done []uint64
	var outside []string // sizes for which the schedule is not made
	for _, size := range sizes {
		sized, cut, err := s.At(uint64(size), elem)
		if err != nil {
			r.Notes = append(r.Notes, err.Error())
			continue
		}
		if slices.Contains(done, cut.Bytes) {
			continue
		}
		done = append(done, cut.Bytes)
		if s.MinBytes > int64(cut.Bytes) || s.MaxBytes > 0 && s.MaxBytes < int64(cut.Bytes) {
			outside = append(outside, fmt.Sprint(cut.Bytes))
		}
		for _, inPlace := range s.Variants() {
			row := newRow(s, &cut, inPlace, place)
			note, err := p.Play(ctx, sized, &cut, inPlace, &row)
			if err != nil {
				return fmt.Errorf("%d bytes %s: %w", cut.Bytes, row.Place, err)
			}
			if note != "" {
				r.Notes = append(r.Notes, note)
			}
			row.Busbw = row.Algbw(row.Avg) * s.BusFactor() / 1e9
			r.Rows = append(r.Rows, row)
		}
	}
	if len(r.Rows) == 0 {
		return &configs.Error{Err: errors.New(r.Notes[0])}
	}
	if len(outside) > 0 {
		limits := fmt.Sprintf("%d to %d", s.MinBytes, s.MaxBytes)
		if s.MaxBytes == 0 {
			limits = fmt.Sprintf("%d and more", s.MinBytes)
		}
		r.Notes = append(r.Notes, fmt.Sprintf("%s would not use the schedule for %s bytes: it is for %s",
			executorOf(s), strings.Join(outside, ", "), limits))
	}
	return nil
}

// newRow is a row without times.
func newRow(s *schedule.Schedule, cut *schedule.Cut, inPlace bool, place *model.Place) Row {
	row := Row{Size: cut.Bytes, Count: cut.Bytes / elem, Place: bench.Place(inPlace),
		Bound: units.Microseconds(place.Bound(s, cut))}
	if s.Coll.PerRank() {
		row.Count /= uint64(len(s.GPUs))
	}
	return row
}

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

// executorOf names what executes schedules of this kind on GPUs.
func executorOf(s *schedule.Schedule) string {
	if s.Whole {
		return "MSCCL++"
	}
	return "MSCCL"
}
