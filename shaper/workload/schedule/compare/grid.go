// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"fmt"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// Grid has the times of one kind of schedule over k and the grain, at one size. The tags are the names under --json.
type Grid struct {
	Kind    string          `json:"kind"`
	Coll    string          `json:"collective"`
	Fabric  string          `json:"fabric"`
	Size    int64           `json:"size"`
	Bound   float64         `json:"bound_us"`
	Ks      []int           `json:"k"`
	Grains  []int64         `json:"grains"`
	Times   [][]float64     `json:"times_us"`                 // by grain, then k
	InForce configs.InForce `json:"fabric_in_force,omitzero"` // what the fabric has in force

	BusFactor float64 `json:"-"` // from algbw to busbw
}

// Fill calculates the times for all of Ks and Grains. make makes a schedule; progress is called with the part that is
// done.
func (g *Grid) Fill(ctx context.Context, place *model.Place, make func(k int, grain int64) (*schedule.Schedule, error),
	progress func(part float64)) error {
	g.Fabric = place.Fabric.Config.Name
	for i, grain := range g.Grains {
		g.Times = append(g.Times, nil)
		for _, k := range g.Ks {
			s, err := make(k, grain)
			if err != nil {
				return err
			}
			if err := g.add(ctx, place, s); err != nil {
				return fmt.Errorf("k %d, grain %d: %w", k, grain, err)
			}
		}
		progress(float64(i+1) / float64(len(g.Grains)))
	}
	return nil
}

// add adds the time of a schedule to the last row.
func (g *Grid) add(ctx context.Context, place *model.Place, s *schedule.Schedule) error {
	s, cut, err := s.At(uint64(g.Size), elem)
	if err != nil {
		return &configs.Error{Err: err}
	}
	f, err := place.Forecast(ctx, s, &cut, g.Size)
	if err != nil {
		return err
	}
	g.Coll, g.BusFactor, g.Bound = string(s.Coll), s.BusFactor(), f.Bound
	last := len(g.Times) - 1
	g.Times[last] = append(g.Times[last], f.Time)
	return nil
}
