// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// Header is the first part of a run's output. The keys of JSON are fixed: fields may be added, none renamed.
type Header struct {
	NCCL       string   `json:"nccl"`               // version
	CUDA       string   `json:"cuda"`               // "soft" or "gpu"
	Profile    string   `json:"profile"`            // or the name in the fabric file
	InForce    string   `json:"in_force,omitempty"` // what the fabric has otherwise than the profile; "" if nothing
	Seed       uint64   `json:"seed"`               // of the random draws
	Datapath   string   `json:"datapath"`           // such as shm
	Clock      string   `json:"clock"`              // configs.RealClock or VirtualClock
	TimeScale  float64  `json:"time_scale"`         // times in the output are divided by it
	Ranks      int      `json:"ranks"`
	Nodes      int      `json:"nodes"`
	Collective string   `json:"collective"`
	NCCLLib    string   `json:"nccl_lib"` // the library as given
	Warmup     int      `json:"warmup"`
	Iters      int      `json:"iters"`
	Notes      []string `json:"notes"` // printed with the header, one per line
	Check      bool     `json:"-"`
	// Fabric is all that the fabric has in force.
	Fabric configs.InForce `json:"fabric_in_force,omitzero"`
	// NotIn is what the times lack of a real run, printed below the table.
	NotIn []string `json:"not_in_numbers,omitempty"`
}

// NewHeader fills a header from cfg and info. The caller sets CUDA, Profile, Datapath and Notes, and Nodes if NCCL's
// log does not have it.
func NewHeader(cfg Config, info Info) Header {
	h := Header{
		Collective: cfg.Collective.String(), NCCL: info.NCCL, NCCLLib: info.NCCLLib,
		TimeScale: cmp.Or(cfg.TimeScale, 1),
		Ranks:     cfg.Ranks, Warmup: cfg.Warmup, Iters: cfg.Iters, Check: cfg.Check,
	}
	h.Clock = configs.RealClock
	if cfg.Virtual {
		h.Clock = configs.VirtualClock
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
	// Baseline is the comparison with an earlier run; nil if there is none.
	Baseline Comparison
	// Failures are what of the rows is not as the user asked for; not judged if the verdict is not VALID.
	Failures []Miss
}

// Comparison is how a run compares with an earlier one. Its JSON is part of the document.
type Comparison interface{ Lines() []string }

// Miss is a time of a row that is not as asked for. The names are as in JSON.
type Miss struct {
	Type string `json:"type"` // the flag that asks for it, without dashes
	Text string `json:"text"`
}

// BudgetSummary says what a budget has cost. The names are as in JSON.
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

// Recording is a printer that keeps what it is told until Play.
type Recording struct {
	To      Printer // for Play
	Header  *Header // nil before Begin
	Rows    []Row
	Summary *Summary // nil before End
}

// Begin replaces what was kept of an earlier run.
func (r *Recording) Begin(h Header) error { *r = Recording{To: r.To, Header: &h}; return nil }

// Row keeps a row.
func (r *Recording) Row(row Row) error { r.Rows = append(r.Rows, row); return nil }

// End keeps the summary.
func (r *Recording) End(s Summary) error { r.Summary = &s; return nil }

// Play prints what was kept; r may be nil.
func (r *Recording) Play() error {
	if r == nil || r.Header == nil {
		return nil
	}
	err := r.To.Begin(*r.Header)
	for i := 0; i < len(r.Rows) && err == nil; i++ {
		err = r.To.Row(r.Rows[i])
	}
	if err == nil && r.Summary != nil {
		err = r.To.End(*r.Summary)
	}
	return err
}
