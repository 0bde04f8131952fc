// SPDX-License-Identifier: Apache-2.0

// Package steps says how the steps of a workload went: as text, as JSON and as a plot, on one fabric, on two, or over
// the values of a parameter.
package steps

import (
	"slices"
	"strconv"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/run/play"
)

// Report is a result as JSON. Times are microseconds, and those that are not known are null.
type Report struct {
	Workload  string `json:"workload"`
	NCCL      string `json:"nccl"`
	CUDA      string `json:"cuda"`
	Profile   string `json:"profile"`
	Datapath  string `json:"datapath"`
	Clock     string `json:"clock"`
	TimeScale int    `json:"time_scale"`
	Ranks     int    `json:"ranks"`
	Nodes     int    `json:"nodes"`
	// nothing was played: the times are from the model, and there is no verdict
	Forecast bool    `json:"forecast"`
	TimeUS   float64 `json:"time_us"` // of all steps
	// Interval is the interval of the time of all steps in the model, if the source of the workload gives only intervals
	// for the times of computations.
	Interval *IntervalReport `json:"interval,omitempty"`
	MeanUS   float64         `json:"mean_step_us"` // of the steps but for the next two
	// steps at the beginning and at the end of the job whose calls are not the calls of most steps
	Warmup   int               `json:"warmup_steps"`
	Ending   int               `json:"ending_steps"`
	Steps    []StepReport      `json:"steps"`
	Calls    []CallsReport     `json:"calls"`
	Parts    []ShareReport     `json:"composition"`
	Hops     []HopReport       `json:"hops"`           // the busiest first
	WindowUS float64           `json:"peak_window_us"` // of the peaks of hops
	Checked  int64             `json:"checked"`
	Wrong    int64             `json:"wrong"`
	Verdict  string            `json:"verdict"`
	Reasons  []string          `json:"reasons"`
	Findings []verdict.Finding `json:"findings"`
	Notes    []string          `json:"notes"`
	// what the fabric has otherwise than the profile; "" if nothing
	InForce string          `json:"in_force,omitempty"`
	GPUTime string          `json:"gpu_time,omitempty"` // what GPUs cost in the expected times
	Fabric  configs.InForce `json:"fabric_in_force,omitzero"`
	NotIn   []string        `json:"not_in_numbers,omitempty"` // what the times lack of a real run
	Seed    uint64          `json:"seed"`                     // of the random draws
	// Baseline is the comparison with an earlier run; nil if there is none.
	Baseline *baseline.Comparison `json:"baseline,omitempty"`
}

// IntervalReport is an [play.Interval].
type IntervalReport struct {
	LeastUS float64 `json:"least_us"`
	MostUS  float64 `json:"most_us"`
	Reason  string  `json:"reason"`
}

// ShareReport is a [play.Share].
type ShareReport struct {
	What      string  `json:"what"`
	TimeUS    float64 `json:"time_us"`    // of all steps
	WaitingUS float64 `json:"waiting_us"` // of it, for ranks that were not ready
}

// StepReport is a [play.Step].
type StepReport struct {
	TimeUS     float64  `json:"time_us"`
	ComputeUS  float64  `json:"compute_us"`
	ExposedUS  float64  `json:"exposed_us"`
	WaitingUS  float64  `json:"waiting_us"` // of exposed
	HiddenUS   float64  `json:"hidden_us"`
	IdleUS     float64  `json:"idle_us"`
	Slowest    int      `json:"slowest_rank"`
	ExpectedUS *float64 `json:"expected_us"`
}

// CallsReport is a [play.Calls].
type CallsReport struct {
	Func       string   `json:"func"`
	Comm       string   `json:"comm"`
	Ranks      int      `json:"ranks"`
	Size       int64    `json:"size"`
	Count      int      `json:"calls"`
	MeanUS     float64  `json:"mean_us"`
	MinUS      float64  `json:"min_us"`
	MaxUS      float64  `json:"max_us"`
	WaitingUS  float64  `json:"waiting_us"` // of mean, for ranks of other calls of the group
	BusBW      float64  `json:"busbw_gbs"`
	Grouped    bool     `json:"grouped"`
	Algo       string   `json:"algo"`
	Proto      string   `json:"proto"`
	Channels   int      `json:"channels"`
	ExpectedUS *float64 `json:"expected_us"`
}

// Report returns the result for JSON.
func (r *Result) Report() *Report {
	f, c := &r.Facts, &r.Facts.Fabric.Config
	head := &f.Workload.Workload.Head
	out := &Report{
		Workload: head.Name, NCCL: f.NCCL, CUDA: f.CUDA, Profile: c.Name, Datapath: c.DatapathName(),
		Clock: c.ClockName(), TimeScale: r.Scale,
		Ranks: head.Ranks, Nodes: r.nodes(), Forecast: r.Forecast, TimeUS: units.Microseconds(r.Time),
		MeanUS: units.Microseconds(r.Mean().Time),
		Steps:  []StepReport{}, Calls: []CallsReport{}, Parts: []ShareReport{}, Checked: r.Checked, Wrong: r.Wrong,
		Verdict: r.Verdict.Word, Reasons: r.Verdict.Reasons,
		Findings: r.Verdict.Findings,
		Notes: append([]string{}, slices.Concat(head.Source.Notes, f.VariableNotes(), r.Notes,
			r.Verdict.Notes)...),
		InForce: r.InForce.Changes(), GPUTime: r.InForce.GPUTime, Fabric: r.InForce, NotIn: r.NotIn,
		Seed: c.Seed, Baseline: r.Baseline,
	}
	if v := &r.Interval; v.Reason != "" {
		least, most := v.Bounds()
		out.Interval = &IntervalReport{units.Microseconds(least), units.Microseconds(most), v.Reason}
	}
	out.Warmup, out.Ending = r.apart()
	if note := r.insideNote(); note != "" {
		out.Notes = append(out.Notes, note)
	}
	if r.Problem != "" {
		out.Notes = append(out.Notes, "no expected times: "+r.Problem)
	}
	for i, s := range r.Steps {
		out.Steps = append(out.Steps, StepReport{
			TimeUS: units.Microseconds(s.Time), ComputeUS: units.Microseconds(s.Compute),
			ExposedUS: units.Microseconds(s.Exposed),
			WaitingUS: units.Microseconds(s.Waiting), HiddenUS: units.Microseconds(s.Hidden),
			IdleUS: units.Microseconds(s.Idle), Slowest: s.Slowest, ExpectedUS: inMicroseconds(r.expected(i)),
		})
	}
	out.Hops, out.WindowUS = r.hopReports(), units.Microseconds(r.Window)
	for _, s := range r.Composition {
		out.Parts = append(out.Parts, ShareReport{s.What, units.Microseconds(s.Time), units.Microseconds(s.Waiting)})
	}
	for i := range r.Calls {
		out.Calls = append(out.Calls, reportOf(&r.Calls[i]))
	}
	return out
}

func inMicroseconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(units.Microseconds(*d))
}

func reportOf(c *play.Calls) CallsReport {
	out := CallsReport{
		Func: c.Func, Comm: c.Comm, Ranks: c.Ranks, Size: c.Size, Count: c.Count, MeanUS: units.Microseconds(c.Mean),
		MinUS: units.Microseconds(c.Min),
		MaxUS: units.Microseconds(c.Max), WaitingUS: units.Microseconds(c.Waiting), BusBW: c.BusBW, Grouped: c.Grouped,
		Algo: c.Algo, Proto: c.Proto, Channels: c.Channels,
	}
	if c.Known {
		out.ExpectedUS = inMicroseconds(&c.Expected)
	}
	return out
}

// Result is the outcome of a replay or a forecast as it is shown.
type Result struct {
	*play.Result
	// Baseline is the comparison with an earlier run; nil if there is none.
	Baseline *baseline.Comparison
}

// Of is the result that [play.Run] and [play.Forecast] return, nil if they return none.
func Of(r *play.Result, err error) (*Result, error) {
	if r == nil {
		return nil, err
	}
	return &Result{Result: r}, err
}

// mostHops is how many hops a table shows. JSON has all.
const mostHops = 4

// hops writes the busiest hops.
func (t *text) hops() {
	if len(t.Hops) == 0 || t.Time <= 0 {
		return
	}
	width := len("hop")
	shown := t.Hops[:min(len(t.Hops), mostHops)]
	for i := range shown {
		width = max(width, len(shown[i].Name))
	}
	const rest = "  %12s  %14s  %12s  %8s  %8s"
	t.line("# %-*s"+rest, width, "hop", "bandwidth", "bytes", "average", "busy", "peak")
	t.line("# %-*s"+rest, width, "", "", "(B)", "(Gb/s)", "(%)", "(%)")
	percent := func(share *float64) string {
		if share == nil {
			return "-"
		}
		return strconv.FormatFloat(100**share, 'f', 1, 64)
	}
	for i := range shown {
		h := &shown[i]
		t.line("  %-*s"+rest, width, h.Name, h.Bandwidth, strconv.FormatUint(h.Bytes, 10),
			strconv.FormatFloat(h.Rate(t.Time)/1e9, 'f', 4, 64), percent(h.Share(t.Time)), percent(h.Peak))
	}
	if more := len(t.Hops) - len(shown); more > 0 {
		t.line("# and %s, less busy: see --json", units.Count(more, "more hop"))
	}
	if t.Window > 0 {
		t.line("# peak: the busiest of the windows of %s us, by the model", microseconds(t.Window))
	}
	t.line("#")
}

// HopReport is a [HopUse] as JSON.
type HopReport struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Bandwidth is null if it is unlimited, and so are Busy and Peak.
	Bandwidth *uint64  `json:"bandwidth_bps"`
	Bytes     uint64   `json:"bytes"`
	Rate      float64  `json:"average_bps"`
	Busy      *float64 `json:"busy"`
	Peak      *float64 `json:"peak"`
}

func (r *Result) hopReports() []HopReport {
	out := []HopReport{}
	for i := range r.Hops {
		h := &r.Hops[i]
		report := HopReport{Name: h.Name, Kind: h.Kind, Bytes: h.Bytes, Rate: h.Rate(r.Time), Busy: h.Share(r.Time),
			Peak: h.Peak}
		if h.Bandwidth != 0 {
			report.Bandwidth = new(uint64(h.Bandwidth))
		}
		out = append(out, report)
	}
	return out
}
