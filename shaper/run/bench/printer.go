// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
)

// Header is the first part of a run's output.
type Header struct {
	Collective string
	NCCL       string  // version
	NCCLLib    string  // the library as given
	CUDA       string  // "soft" or "gpu"
	Profile    string  // or the name in the fabric file
	Datapath   string  // such as shm
	Clock      string  // configs.RealClock or VirtualClock
	TimeScale  float64 // times in the output are divided by it
	Ranks      int
	Nodes      int
	Warmup     int
	Iters      int
	Check      bool
	// Notes are printed with the header, one per line.
	Notes []string
}

// NewHeader fills a header from cfg and info. The caller sets CUDA, Profile, Datapath and Notes, and Nodes if NCCL's
// log does not have it.
func NewHeader(cfg Config, info Info) Header {
	h := Header{
		Collective: cfg.Collective.String(), NCCL: info.NCCL, NCCLLib: info.NCCLLib, TimeScale: cfg.TimeScale,
		Ranks: cfg.Ranks, Warmup: cfg.Warmup, Iters: cfg.Iters, Check: cfg.Check,
	}
	h.Clock = configs.RealClock
	if cfg.Virtual {
		h.Clock = configs.VirtualClock
	}
	if h.TimeScale == 0 {
		h.TimeScale = 1
	}
	if info.Topology != nil {
		h.Nodes = info.Topology.Nodes
	}
	return h
}

// NewSummary makes a summary of a run with this verdict. more is the option that shows all reasons for INVALID, see
// [verdict.Verdict.Lines].
func NewSummary(r Result, v verdict.Verdict, more string) Summary {
	return Summary{Wrong: r.Wrong(), AvgBusBW: r.AvgBusBW(), Verdict: v, Lines: v.Lines(more)}
}

// Summary is the last part of a run's output.
type Summary struct {
	Wrong    int64   // wrong elements of all rows
	AvgBusBW float64 // GB/s
	Verdict  verdict.Verdict
	Lines    []string // of the reasons for INVALID, as tables have them
	// Budget is nil if the run had none.
	Budget *BudgetSummary
}

// BudgetSummary says what a budget has cost. The names are those of JSON.
type BudgetSummary struct {
	Seconds float64 `json:"seconds"`
	Text    string  `json:"text"`    // what was dropped; empty if nothing was
	Dropped []int64 `json:"dropped"` // sizes of rows that were not measured, in bytes
}

// Printer writes a run's output: Begin once, Row after each row, End once. Each method returns the writer's error.
type Printer interface {
	Begin(Header) error
	Row(Row) error
	End(Summary) error
}

// NewBoth returns a printer that prints with a, then with b.
func NewBoth(a, b Printer) Printer { return both{a, b} }

type both struct{ a, b Printer }

func (p both) Begin(h Header) error { return errors.Join(p.a.Begin(h), p.b.Begin(h)) }
func (p both) Row(r Row) error      { return errors.Join(p.a.Row(r), p.b.Row(r)) }
func (p both) End(s Summary) error  { return errors.Join(p.a.End(s), p.b.End(s)) }
