// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/bench/validate"
)

// Call calculates the time of one call if the nodes cost t.
type Call func(ctx context.Context, t *configs.GPUTime) (time.Duration, error)

// Row is a row of a table with what the model needs.
type Row struct {
	Table     int // which of the tables it is of
	Published time.Duration
	Call      Call
	Case      bench.Case // with NCCL's decision: it says which figures the time depends on
	Nodes     int
}

// model are rows whose times depend on some figures.
type model struct {
	own       configs.GPUTime // with the values of the constants that are not varied
	constants []Constant      // those that are varied
	rows      []Row

	mu    sync.Mutex
	known map[place]float64 // errors that were calculated
}

// place is a row and the parameters that it depends on, as text.
type place struct {
	row        int
	parameters string
}

// at returns the figures at some parameters, which are logarithms.
func (m *model) at(parameters []float64) *configs.GPUTime {
	t := m.own
	for i := range m.constants {
		m.constants[i].Set(&t, math.Exp(parameters[i]))
	}
	return &t
}

// parametersOf are those of t.
func (m *model) parametersOf(t *configs.GPUTime) (all []float64) {
	for i := range m.constants {
		all = append(all, math.Log(m.constants[i].Of(t)))
	}
	return all
}

// problem is that of the search.
func (m *model) problem() Problem {
	return Problem{Errors: m.errors, Uses: func(parameter, row int) bool {
		return uses(m.constants[parameter].Name, &m.rows[row])
	}}
}

// actions are the names of the actions of kernels.
var actions = []string{"ll", "ll128", "simple", "send", "nvls_copy", "nvls_head"}

// uses says whether the time of a row may depend on a figure. Each action belongs to some algorithms and protocols; the
// other figures matter for all calls, those of the net between nodes.
func uses(figure string, r *Row) bool {
	section, _, _ := strings.Cut(figure, ".")
	if section == "net" {
		return r.Nodes > 1
	}
	d := r.Case.Decision
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

// errors are those of the rows at some parameters, several rows at once.
func (m *model) errors(ctx context.Context, parameters []float64, rows []int) ([]float64, error) {
	t := m.at(parameters)
	out := make([]float64, len(rows))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(rows)) {
		workers.Go(func() {
			for i := range next {
				out[i] = m.error(ctx, t, rows[i])
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

// error is that of one row, which is calculated once for the same values of the parameters that it depends on.
func (m *model) error(ctx context.Context, t *configs.GPUTime, row int) float64 {
	r := &m.rows[row]
	var key strings.Builder
	for i := range m.constants {
		if c := &m.constants[i]; uses(c.Name, r) {
			key.WriteString(c.Text(t))
			key.WriteByte(' ')
		}
	}
	at := place{row, key.String()}
	m.mu.Lock()
	e, known := m.known[at]
	m.mu.Unlock()
	if known || ctx.Err() != nil {
		return e
	}
	e = math.NaN()
	if got, err := r.Call(ctx, t); err == nil && got > 0 {
		e = math.Log(float64(got) / float64(r.Published))
	}
	if ctx.Err() == nil {
		m.mu.Lock()
		m.known[at] = e
		m.mu.Unlock()
	}
	return e
}

// line is the report's line of a row whose error is e.
func (r *Row) line(e float64) validate.Line {
	calculated := time.Duration(math.Round(float64(r.Published) * math.Exp(e)))
	return validate.NewLine(validate.Row{Size: r.Case.Size, Time: r.Published}, calculated)
}
