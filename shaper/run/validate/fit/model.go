// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// Call calculates the time of one call if the nodes cost t. The error says why the model knows none.
type Call func(ctx context.Context, t *configs.GPUTime) (time.Duration, error)

// Row is a row of a table with what the model needs.
type Row struct {
	testslog.Row
	Table int // which of the tables it is of
	Call  Call
	Case  bench.Case // with NCCL's decision: it says which figures the time depends on
	Nodes int
}

// model are rows whose times depend on some figures.
type model struct {
	own       configs.GPUTime // with the values of the constants that are not varied
	constants []Constant      // those that are varied
	rows      []Row

	mu    sync.Mutex
	known map[place]answer
}

// place is a row and the exact values of the figures that it depends on.
type place struct {
	row     int
	figures string
}

// answer is what the model says of a row: a time, or why it knows none.
type answer struct {
	time time.Duration
	err  error
}

// at returns the figures at some parameters, which are logarithms.
func (m *model) at(parameters []float64) *configs.GPUTime {
	t := m.own
	for i := range m.constants {
		m.constants[i].set(&t, math.Exp(parameters[i]))
	}
	return &t
}

// parametersOf are the parameters of t.
func (m *model) parametersOf(t *configs.GPUTime) (all []float64) {
	for i := range m.constants {
		all = append(all, math.Log(m.constants[i].of(t)))
	}
	return all
}

// problem is the problem of the search.
func (m *model) problem() problem {
	return problem{errors: m.errors, uses: func(parameter, row int) bool {
		return uses(m.constants[parameter].Name, &m.rows[row])
	}}
}

// actions are the names of the actions of kernels.
var actions = []string{"ll", "ll128", "simple", "send", "nvls_copy", "nvls_head"}

// uses says whether the time of a row may depend on a figure. Each action belongs to some algorithms and protocols; the
// other figures matter for all calls, the figures of net if it is between nodes.
func uses(figure string, r *Row) bool {
	section, _, _ := strings.Cut(figure, ".")
	d := r.Case.Decision
	switch section {
	case "net":
		return r.Nodes > 1
	case "send_net":
		return r.Nodes > 1 && d == nil
	case "nvls_tree_copy":
		return d != nil && strings.EqualFold(d.Algo, "NVLSTree")
	}
	if !slices.Contains(actions, section) {
		return true
	}
	if d == nil { // sends and receives, by LL or Simple
		return section == "send" || section == "ll"
	}
	switch strings.ToLower(d.Algo) {
	case "ring", "tree":
		return section == strings.ToLower(d.Proto)
	}
	return section == "simple" || strings.HasPrefix(section, "nvls")
}

// errors are the logarithms of calculated over published times at some parameters; NaN where the model knows no time.
func (m *model) errors(ctx context.Context, parameters []float64, rows []int) ([]float64, error) {
	answers, err := m.answers(ctx, parameters, rows)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(rows))
	for i, a := range answers {
		out[i] = math.NaN()
		if a.err == nil {
			out[i] = math.Log(float64(a.time) / float64(m.rows[rows[i]].OutOfPlace.Time))
		}
	}
	return out, nil
}

// answers are the answers of the rows at some parameters. Several rows are calculated at once. The error is ctx's.
func (m *model) answers(ctx context.Context, parameters []float64, rows []int) ([]answer, error) {
	t := m.at(parameters)
	out := make([]answer, len(rows))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(rows)) {
		workers.Go(func() {
			for i := range next {
				out[i] = m.answer(ctx, t, rows[i])
			}
		})
	}
	for i := range slices.Backward(rows) { // the largest calls take longest
		next <- i
	}
	close(next)
	workers.Wait()
	return out, ctx.Err()
}

// answer is the answer of one row. It is calculated once for the same values of the figures that the row depends on.
func (m *model) answer(ctx context.Context, t *configs.GPUTime, row int) answer {
	at := place{row, m.figuresOf(t, row)}
	m.mu.Lock()
	a, known := m.known[at]
	m.mu.Unlock()
	if known || ctx.Err() != nil {
		return a
	}
	if a.time, a.err = m.rows[row].Call(ctx, t); a.err == nil && a.time <= 0 {
		a.err = errors.New("the model has a time of 0 for it")
	}
	if ctx.Err() == nil {
		m.mu.Lock()
		m.known[at] = a
		m.mu.Unlock()
	}
	return a
}

// figuresOf are the values in t of the figures that a row depends on.
func (m *model) figuresOf(t *configs.GPUTime, row int) string {
	var key []byte
	for i := range m.constants {
		if c := &m.constants[i]; uses(c.Name, &m.rows[row]) {
			key = binary.LittleEndian.AppendUint64(key, math.Float64bits(c.of(t)))
		}
	}
	return string(key)
}
