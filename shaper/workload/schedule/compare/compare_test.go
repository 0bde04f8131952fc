// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// The fastest is the first of those with the least time, and the second comes behind it in the order of times.
func TestFastest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var row Row
		var known []float64
		for range rapid.IntRange(0, 6).Draw(t, "schedules") {
			if rapid.Bool().Draw(t, "known") {
				x := float64(rapid.IntRange(1, 9).Draw(t, "us"))
				known = append(known, x)
				row.add(&x)
			} else {
				row.add(nil)
			}
		}
		if row.Best == nil {
			if len(known) > 0 {
				t.Fatal("none is the fastest")
			}
			return
		}
		slices.Sort(known)
		if *row.Times[*row.Best] != known[0] {
			t.Fatalf("%g, want %g", *row.Times[*row.Best], known[0])
		}
		for _, x := range row.Times[:*row.Best] {
			if x != nil && *x == known[0] {
				t.Fatal("an earlier one is as fast")
			}
		}
		percent, ok := row.Ahead()
		if ok != (len(known) > 1) || ok && math.Abs(percent-100*(known[1]/known[0]-1)) > 1e-9 {
			t.Fatalf("%g %v of %v", percent, ok, known)
		}
	})
}

// star is a place for 4 GPUs, each a node of its own.
func star(t *testing.T) *model.Place {
	t.Helper()
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes = 4
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := model.NewPlace(fab, 4)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ring(t *testing.T, k int, grain int64) *schedule.Schedule {
	t.Helper()
	s, err := mk.Ring(mk.Options{Coll: schedule.AllReduce, GPUs: 4, K: k, Grain: grain})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// played is the model's time of one call of a schedule in us, and the bytes of it.
func played(t *testing.T, p *model.Place, s *schedule.Schedule, size uint64) (us float64, bytes uint64) {
	t.Helper()
	cut, err := s.Cut(size, elem)
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.Expect()
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.Play(t.Context(), s, &cut, f, 1)
	if err != nil {
		t.Fatal(err)
	}
	return float64(r.Times[0]) / 1e3, cut.Bytes
}

// A time is that of the model, or that per byte if the chunks do not divide the size. A size that is too small has none.
func TestTable(t *testing.T) {
	p, one, five := star(t), ring(t, 1, 0), ring(t, 5, 0)
	table := New(p, []string{"one", "five"}, []*schedule.Schedule{one, five})
	for _, size := range []int64{16, 1 << 20} {
		if err := table.Add(t.Context(), size); err != nil {
			t.Fatal(err)
		}
	}
	small, large := table.Rows[0], table.Rows[1]
	if small.Times[0] == nil || small.Times[1] != nil || *small.Best != 0 {
		t.Errorf("%+v", small)
	}
	us, bytes := played(t, p, five, 1<<20)
	if want := us * (1 << 20) / float64(bytes); bytes == 1<<20 || math.Abs(*large.Times[1]-want) > 1e-9 {
		t.Errorf("%g us, want %g: %d bytes take %g", *large.Times[1], want, bytes, us)
	}
	if len(table.Loads) != 2 || table.Loads[0].Link != "node0 tx" || table.Loads[0].Time != *large.Times[0] {
		t.Errorf("%+v", table.Loads)
	}
	table.AddColumn("other", func(size int64) *float64 {
		if size == 16 {
			return nil
		}
		return new(0.5)
	})
	if *table.Rows[0].Best != 0 || *table.Rows[1].Best != 2 || table.Schedules[2] != "other" {
		t.Errorf("%+v, %+v, of %q", table.Rows[0], table.Rows[1], table.Schedules)
	}
}

func TestGrid(t *testing.T) {
	p := star(t)
	g := &Grid{Size: 1 << 20, Ks: []int{1, 2}, Grains: []int64{16 << 10, 64 << 10}}
	var parts []float64
	make := func(k int, grain int64) (*schedule.Schedule, error) { return ring(t, k, grain), nil }
	if err := g.Fill(t.Context(), p, make, func(part float64) { parts = append(parts, part) }); err != nil {
		t.Fatal(err)
	}
	for i, grain := range g.Grains {
		for n, k := range g.Ks {
			if us, _ := played(t, p, ring(t, k, grain), 1<<20); g.Times[i][n] != us || us < g.Bound {
				t.Errorf("k %d, grain %d: %g us, want %g, bound %g", k, grain, g.Times[i][n], us, g.Bound)
			}
		}
	}
	if g.BusFactor != 1.5 || g.Coll != "allreduce" || g.Fabric != "ndr400" || !slices.Equal(parts, []float64{0.5, 1}) {
		t.Errorf("%+v, %v", g, parts)
	}
	g = &Grid{Size: 4, Ks: []int{1}, Grains: []int64{256}}
	if err := g.Fill(t.Context(), p, make, func(float64) {}); !configs.IsUserError(err) {
		t.Error(err)
	}
}
