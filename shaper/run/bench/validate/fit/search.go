// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"math"
	"slices"
)

// Problem is what a search needs of a model: errors of rows that depend on parameters.
type Problem struct {
	// Errors are the logarithms of calculated over published times of some rows; NaN where the model knows no time.
	Errors func(ctx context.Context, at []float64, rows []int) ([]float64, error)
	// Uses says whether the error of a row depends on a parameter.
	Uses func(parameter, row int) bool
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
	// longestStep bounds the change of a parameter in one round, and farthest the change in all.
	longestStep, farthest = 0.7, 2.5
	// goodEnough is the gain, of the loss, below which a search ends.
	goodEnough = 0.002
	halvings   = 4
)

// search is one search.
type search struct {
	p     Problem
	rows  []int
	start []float64 // the values that the parameters are pulled to
}

// Point is where a search is: parameters, which are logarithms, and the errors of its rows there. Slopes are by how
// much the errors change with each parameter, about; nil if that is not known.
type Point struct {
	At     []float64
	Errors []float64
	Slopes [][]float64 // by row and parameter
}

// Minimize returns the point at which the errors of the rows are least, in at most so many rounds. start are the values
// of the parameters that the rows do not determine. The search begins at begin, which has the errors of the same rows,
// or none.
func Minimize(ctx context.Context, p Problem, rows []int, start []float64, begin Point, rounds int) (best Point,
	err error) {
	s := &search{p, rows, start}
	best = begin
	if best.Errors == nil {
		if best.Errors, err = p.Errors(ctx, best.At, rows); err != nil {
			return best, err
		}
	}
	loss := s.loss(&best)
	for range rounds {
		exact := best.Slopes == nil
		if exact {
			if best.Slopes, err = s.slopes(ctx, &best); err != nil {
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
			best.Slopes = nil // those of another point may be wrong here
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
func (s *search) loss(p *Point) (sum float64) {
	for _, e := range p.Errors {
		if !math.IsNaN(e) {
			sum += math.Hypot(e, robust) - robust
		}
	}
	for i, x := range p.At {
		d := x - s.start[i]
		sum += pull * d * d / 2
	}
	return sum
}

// slopes measures those at a point.
func (s *search) slopes(ctx context.Context, p *Point) ([][]float64, error) {
	out := make([][]float64, len(s.rows))
	for i := range out {
		out[i] = make([]float64, len(p.At))
	}
	for k := range p.At {
		var rows, places []int
		for i, row := range s.rows {
			if s.p.Uses(k, row) && !math.IsNaN(p.Errors[i]) {
				rows, places = append(rows, row), append(places, i)
			}
		}
		changed := slices.Clone(p.At)
		changed[k] += difference
		now, err := s.p.Errors(ctx, changed, rows)
		if err != nil {
			return nil, err
		}
		for n, i := range places {
			if d := now[n] - p.Errors[i]; !math.IsNaN(d) {
				out[i][k] = d / difference
			}
		}
	}
	return out, nil
}

// step is the change of the parameters to the least loss of the linear model that the slopes of a point are.
func (s *search) step(p *Point) []float64 {
	n := len(p.At)
	matrix, right := make([][]float64, n), make([]float64, n)
	for a := range n {
		matrix[a] = make([]float64, n)
		matrix[a][a] = pull
		right[a] = -pull * (p.At[a] - s.start[a])
	}
	for i, e := range p.Errors {
		if math.IsNaN(e) {
			continue
		}
		weight := 1 / math.Hypot(e, robust)
		for a, slope := range p.Slopes[i] {
			right[a] -= weight * slope * e
			for b := range n {
				matrix[a][b] += weight * slope * p.Slopes[i][b]
			}
		}
	}
	step := solve(matrix, right)
	for a := range step {
		step[a] = max(-longestStep, min(step[a], longestStep))
	}
	return step
}

// descend goes from a point along step, less far until the loss is lower. Its slopes are those before, corrected so
// that they would have led to the errors found (Broyden's method). If no part of step is better, l is not below loss.
func (s *search) descend(ctx context.Context, p *Point, step []float64, loss float64) (next Point, l float64,
	err error) {
	part := 1.0
	for range halvings {
		next = Point{At: slices.Clone(p.At)}
		for i := range next.At {
			d := next.At[i] + part*step[i] - s.start[i]
			next.At[i] = s.start[i] + max(-farthest, min(d, farthest))
		}
		if next.Errors, err = s.p.Errors(ctx, next.At, s.rows); err != nil {
			return next, 0, err
		}
		if l = s.loss(&next); l < loss {
			next.Slopes = s.corrected(p, &next)
			return next, l, nil
		}
		part /= 2
	}
	return next, loss, nil
}

// oneByOne moves each parameter alone, if that makes the loss lower. Only the rows that depend on it change.
func (s *search) oneByOne(ctx context.Context, p Point, loss float64) (Point, float64, error) {
	for k := range p.At {
		alone := make([]float64, len(p.At))
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
func (s *search) stepOf(p *Point, k int) float64 {
	matrix, right := pull, -pull*(p.At[k]-s.start[k])
	for i, e := range p.Errors {
		if slope := p.Slopes[i][k]; !math.IsNaN(e) {
			weight := 1 / math.Hypot(e, robust)
			matrix, right = matrix+weight*slope*slope, right-weight*slope*e
		}
	}
	return max(-longestStep, min(right/matrix, longestStep))
}

// corrected are the slopes of from, changed as little as possible to explain the errors at to.
func (s *search) corrected(from, to *Point) [][]float64 {
	out := make([][]float64, len(from.Slopes))
	for i, slopes := range from.Slopes {
		out[i] = slices.Clone(slopes)
		missing, square := to.Errors[i]-from.Errors[i], 0.0
		for k, slope := range slopes {
			if s.p.Uses(k, s.rows[i]) {
				d := to.At[k] - from.At[k]
				missing, square = missing-slope*d, square+d*d
			}
		}
		if square == 0 || math.IsNaN(missing) {
			continue
		}
		for k := range slopes {
			if s.p.Uses(k, s.rows[i]) {
				out[i][k] += missing * (to.At[k] - from.At[k]) / square
			}
		}
	}
	return out
}

// solve returns x with matrix x = right, for a symmetric positive definite matrix (Cholesky). It overwrites matrix.
func solve(matrix [][]float64, right []float64) []float64 {
	n := len(right)
	x := append([]float64(nil), right...)
	for i := range n {
		for j := range i + 1 {
			sum := matrix[i][j]
			for k := range j {
				sum -= matrix[i][k] * matrix[j][k]
			}
			if i == j {
				matrix[i][i] = math.Sqrt(sum)
			} else {
				matrix[i][j] = sum / matrix[j][j]
			}
		}
	}
	for i := range n {
		for k := range i {
			x[i] -= matrix[i][k] * x[k]
		}
		x[i] /= matrix[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= matrix[k][i] * x[k]
		}
		x[i] /= matrix[i][i]
	}
	return x
}
