// SPDX-License-Identifier: Apache-2.0

// Package compare calculates by the link model how long schedules of one collective take on a fabric: side by side over
// sizes ([Table]), or one kind over its k and grain ([Grid]).
package compare

import (
	"context"
	"fmt"
	"math"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// elem is the size of an element in bytes: int32, as schedules are run with.
const elem = 4

// Table has the times of schedules over sizes. The tags are the names under --json.
type Table struct {
	Coll      string          `json:"collective"`
	Fabric    string          `json:"fabric"`
	Schedules []string        `json:"schedules"`
	Rows      []Row           `json:"rows"`
	Loads     []BusiestLink   `json:"busiest_links"`
	Notes     []string        `json:"notes,omitempty"`
	InForce   configs.InForce `json:"fabric_in_force,omitzero"` // what the fabric has in force
	Verdict   string          `json:"verdict,omitempty"`        // incomplete if the calculation was interrupted

	place *model.Place
	all   []*schedule.Schedule
}

// Row has the times at a size.
type Row struct {
	Size  int64      `json:"size"`
	Times []*float64 `json:"times_us"` // of each schedule; null: the size is too small for its chunks
	Best  *int       `json:"best"`     // number of the fastest schedule; null: none has a time
	Bound float64    `json:"bound_us"`
}

// BusiestLink is the busiest hop of a schedule at the largest size.
type BusiestLink struct {
	Schedule string  `json:"schedule"`
	Link     string  `json:"link"`
	Bytes    uint64  `json:"bytes"`
	Busy     float64 `json:"busy_us"`
	Time     float64 `json:"time_us"`
	Total    uint64  `json:"bytes_between_nodes"`
	Messages uint64  `json:"messages"`
}

// New makes a table without rows. The schedules are good, of one collective and for as many GPUs as place has; names
// are theirs.
func New(place *model.Place, names []string, all []*schedule.Schedule) *Table {
	return &Table{Rows: []Row{}, Loads: []BusiestLink{}, Coll: string(all[0].Coll), Schedules: names,
		Fabric: place.Fabric.Config.Name, place: place, all: all}
}

// Add adds the row of a size. The loads are the loads of the row that was added last.
func (t *Table) Add(ctx context.Context, size int64) error {
	row := Row{Size: size}
	var loads []BusiestLink
	for i, s := range t.all {
		s, cut, err := s.At(uint64(size), elem)
		if err != nil {
			row.add(nil)
			continue
		}
		f, err := t.place.Forecast(ctx, s, &cut, size)
		if err != nil {
			return fmt.Errorf("%s, %d bytes: %w", t.Schedules[i], size, err)
		}
		row.add(&f.Time)
		row.Bound = max(row.Bound, f.Bound)
		b := BusiestLink{Schedule: t.Schedules[i], Time: f.Time, Total: f.Bytes, Messages: f.Messages}
		if len(f.Loads) > 0 {
			l := f.Loads[0]
			b.Link, b.Bytes, b.Busy = t.place.Fabric.HopName(l.Hop), l.Bytes, l.BusyNs/1e3
		}
		loads = append(loads, b)
	}
	t.Rows, t.Loads = append(t.Rows, row), loads
	return nil
}

// AddColumn adds times from elsewhere. time returns the time of a size in us, nil if it is not known.
func (t *Table) AddColumn(name string, time func(size int64) *float64) {
	t.Schedules = append(t.Schedules, name)
	for i := range t.Rows {
		t.Rows[i].add(time(t.Rows[i].Size))
	}
}

// add adds the time of the next schedule; nil if it is not known.
func (r *Row) add(t *float64) {
	number := len(r.Times)
	r.Times = append(r.Times, t)
	if t != nil && (r.Best == nil || *t < *r.Times[*r.Best]) {
		r.Best = &number
	}
}

// Ahead is by how many percent the second fastest takes longer than the fastest; false if there is no second.
func (r *Row) Ahead() (percent float64, ok bool) {
	second := math.Inf(1)
	for i, x := range r.Times {
		if x != nil && i != *r.Best {
			second = min(second, *x)
		}
	}
	if math.IsInf(second, 1) {
		return 0, false
	}
	return 100 * (second/(*r.Times[*r.Best]) - 1), true
}
