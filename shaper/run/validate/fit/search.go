// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// problem is what a search needs of a model: errors of rows that depend on parameters.
type problem struct {
	// errors are the errors of some rows; NaN where the model knows none.
	errors func(ctx context.Context, at []float64, rows []int) ([]float64, error)
	// uses says whether the error of a row depends on a parameter.
	uses func(parameter, row int) bool
}

// How a search moves.
const (
	// robust is the error beyond which a row counts by its error, and not by its square: a few rows that no figures
	// meet must not decide.
	robust = 0.03
	// pull is the weight of the start: parameters that the rows do not determine stay there. A row that depends on a
	// parameter weighs about 1.
	pull = 0.02
	// difference is by how much a parameter is changed to see what it does.
	difference = 0.02
	// longestStep bounds the change of a parameter in one round, and farthest how far from the start it may go. One that
	// begins farther away may stay there.
	longestStep, farthest = 0.7, 2.5
	// goodEnough is the gain, of the loss, below which a search ends.
	goodEnough = 0.002
	halvings   = 4
)

// search is one search.
type search struct {
	p     problem
	rows  []int
	start []float64 // the values that the parameters are pulled to
}

// point is where a search is: parameters, which are logarithms, and the errors of its rows there. Slopes are by how
// much the errors change with each parameter, about; nil if that is not known.
type point struct {
	at     []float64
	errors []float64
	slopes [][]float64 // by row and parameter
}

// minimize returns the point at which the errors of the rows are least, in at most so many rounds. start are the values
// of the parameters that the rows do not determine. The search begins at begin, which has the errors of these rows.
func minimize(ctx context.Context, p problem, rows []int, start []float64, begin point, rounds int) (best point,
	err error) {
	s := &search{p, rows, start}
	best = begin
	loss := s.loss(&best)
	for range rounds {
		exact := best.slopes == nil
		if exact {
			if best.slopes, err = s.slopes(ctx, &best); err != nil {
				return best, err
			}
		}
		next, l, err := s.descend(ctx, &best, s.step(&best), loss)
		if err != nil {
			return best, err
		}
		gain := loss - l
		if gain > 0 {
			best, loss = next, l
		}
		if gain > goodEnough*loss {
			continue
		}
		if !exact {
			best.slopes = nil // those of another point may be wrong here
			continue
		}
		// Where a time is the larger of two, slopes on one side say nothing about the other.
		before := loss
		if best, loss, err = s.oneByOne(ctx, best, loss); err != nil {
			return best, err
		}
		if before-loss <= goodEnough*loss {
			break
		}
	}
	return best, nil
}

// loss is the sum over the rows of a function that is the square of small errors and the amount of large ones, and the
// pull to the start.
func (s *search) loss(p *point) (sum float64) {
	for _, e := range p.errors {
		if !math.IsNaN(e) {
			sum += math.Hypot(e, robust) - robust
		}
	}
	for i, x := range p.at {
		d := x - s.start[i]
		sum += pull * d * d / 2
	}
	return sum
}

// slopes measures those at a point.
func (s *search) slopes(ctx context.Context, p *point) ([][]float64, error) {
	out := make([][]float64, len(s.rows))
	for i := range out {
		out[i] = make([]float64, len(p.at))
	}
	for k := range p.at {
		var rows, places []int
		for i, row := range s.rows {
			if s.p.uses(k, row) && !math.IsNaN(p.errors[i]) {
				rows, places = append(rows, row), append(places, i)
			}
		}
		changed := slices.Clone(p.at)
		changed[k] += difference
		now, err := s.p.errors(ctx, changed, rows)
		if err != nil {
			return nil, err
		}
		for n, i := range places {
			if d := now[n] - p.errors[i]; !math.IsNaN(d) {
				out[i][k] = d / difference
			}
		}
	}
	return out, nil
}

// step is the change of the parameters to the least loss of the linear model that the slopes of a point are.
func (s *search) step(p *point) []float64 {
	n := len(p.at)
	matrix, right := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for a := range n {
		matrix.SetSym(a, a, pull)
		right.SetVec(a, -pull*(p.at[a]-s.start[a]))
	}
	for i, e := range p.errors {
		if math.IsNaN(e) {
			continue
		}
		weight := 1 / math.Hypot(e, robust)
		slopes := mat.NewVecDense(n, p.slopes[i])
		matrix.SymRankOne(matrix, weight, slopes)
		right.AddScaledVec(right, -weight*e, slopes)
	}
	step := make([]float64, n) // stays 0 if the slopes are no numbers
	var root mat.Cholesky
	if root.Factorize(matrix) && root.SolveVecTo(mat.NewVecDense(n, step), right) == nil {
		for a, x := range step {
			step[a] = max(-longestStep, min(x, longestStep))
		}
	}
	return step
}

// descend goes from a point along step, less far until the loss is lower. Its slopes are those before, corrected so
// that they would have led to the errors found (Broyden's method). If no part of step is better, l is not below loss.
func (s *search) descend(ctx context.Context, p *point, step []float64, loss float64) (next point, l float64,
	err error) {
	part := 1.0
	for range halvings {
		next = point{at: slices.Clone(p.at)}
		for i := range next.at {
			d := p.at[i] - s.start[i]
			next.at[i] = s.start[i] + max(min(-farthest, d), min(d+part*step[i], max(farthest, d)))
		}
		if next.errors, err = s.p.errors(ctx, next.at, s.rows); err != nil {
			return next, 0, err
		}
		if l = s.loss(&next); l < loss && !forgets(p, &next) {
			next.slopes = s.corrected(p, &next)
			return next, l, nil
		}
		part /= 2
	}
	return next, loss, nil
}

// forgets says whether the model knows the time of a row at from and not at to, where a figure is out of its range.
// Such a row has no part in the loss, so without it the loss is lower.
func forgets(from, to *point) bool {
	for i, e := range to.errors {
		if math.IsNaN(e) && !math.IsNaN(from.errors[i]) {
			return true
		}
	}
	return false
}

// oneByOne moves each parameter alone, if that makes the loss lower. Only the rows that depend on it change.
func (s *search) oneByOne(ctx context.Context, p point, loss float64) (point, float64, error) {
	for k := range p.at {
		alone := make([]float64, len(p.at))
		alone[k] = s.stepOf(&p, k)
		next, l, err := s.descend(ctx, &p, alone, loss)
		if err != nil {
			return p, loss, err
		}
		if l < loss {
			p, loss = next, l
		}
	}
	return p, loss, nil
}

// stepOf is the change of one parameter to the least loss of the linear model, if the others stay.
func (s *search) stepOf(p *point, k int) float64 {
	matrix, right := pull, -pull*(p.at[k]-s.start[k])
	for i, e := range p.errors {
		if slope := p.slopes[i][k]; !math.IsNaN(e) {
			weight := 1 / math.Hypot(e, robust)
			matrix, right = matrix+weight*slope*slope, right-weight*slope*e
		}
	}
	return max(-longestStep, min(right/matrix, longestStep))
}

// corrected are the slopes of from, changed as little as possible to explain the errors at to.
func (s *search) corrected(from, to *point) [][]float64 {
	out := make([][]float64, len(from.slopes))
	for i, slopes := range from.slopes {
		out[i] = slices.Clone(slopes)
		missing, square := to.errors[i]-from.errors[i], 0.0
		for k, slope := range slopes {
			if s.p.uses(k, s.rows[i]) {
				d := to.at[k] - from.at[k]
				missing, square = missing-slope*d, square+d*d
			}
		}
		if square == 0 || math.IsNaN(missing) {
			continue
		}
		for k := range slopes {
			if s.p.uses(k, s.rows[i]) {
				out[i][k] += missing * (to.at[k] - from.at[k]) / square
			}
		}
	}
	return out
}
