// SPDX-License-Identifier: Apache-2.0

package printer

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// compared says how the run compares with an earlier one; nil if it is not compared.
func compared(s *bench.Summary) []string {
	if s.Baseline == nil {
		return nil
	}
	return s.Baseline.Lines()
}

// rounded removes digits beyond the sixth decimal, which have no meaning.
func rounded(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// record is one measurement in JSON and CSV. The names are fixed: fields may be added, none renamed.
type record struct {
	Size        int64    `json:"size"`
	Count       int64    `json:"count"`
	Type        string   `json:"type"`
	RedOp       string   `json:"redop"`
	Root        int      `json:"root"`
	InPlace     bool     `json:"inplace"`
	TimeUS      float64  `json:"time_us"`
	AlgBW       float64  `json:"algbw_gbs"`
	BusBW       float64  `json:"busbw_gbs"`
	Wrong       *int64   `json:"wrong"`        // null without a check
	ExpectedUS  *float64 `json:"expected_us"`  // null if nothing is expected
	DiffPercent *float64 `json:"diff_percent"` // null if nothing is expected
	Spread      *float64 `json:"expected_spread_percent"`
	// only some of the loops or iterations were simulated
	Extrapolated bool    `json:"expected_extrapolated,omitempty"`
	TimeMinUS    float64 `json:"time_min_us"` // over the ranks
	TimeMaxUS    float64 `json:"time_max_us"`
	WallUS       float64 `json:"wall_us"`   // by the processor's clock, whatever the clock of time_us
	DeviceUS     float64 `json:"device_us"` // between CUDA events
	Algo         *string `json:"algo"`      // null if not known
	Proto        *string `json:"proto"`
	Channels     *int    `json:"channels"` // that the call used; null if not known
	Mismatch     string  `json:"mismatch,omitempty"`
	Warmup       int     `json:"warmup"`
	Iters        int     `json:"iters"`
}

func records(r bench.Row) []record {
	var out []record
	for _, m := range r.Measurements() {
		rec := record{
			Size: r.Size, Count: r.Count, Type: r.Type.String(), RedOp: r.Op, Root: r.Root, InPlace: m.InPlace,
			TimeUS: units.Microseconds(m.Time), AlgBW: rounded(m.AlgBW), BusBW: rounded(m.BusBW),
			TimeMinUS: units.Microseconds(m.TimeMin), TimeMaxUS: units.Microseconds(m.TimeMax),
			WallUS: units.Microseconds(m.Wall), DeviceUS: units.Microseconds(m.Device), Mismatch: m.Mismatch,
			Warmup: m.Case.Launches - m.Case.Iters, Iters: m.Case.Iters,
		}
		if m.Checked {
			rec.Wrong = &m.Wrong
		}
		if m.Known {
			us, diff, spread := units.Microseconds(m.Expected), rounded(m.Diff), rounded(m.Spread)
			rec.ExpectedUS, rec.DiffPercent, rec.Spread, rec.Extrapolated = &us, &diff, &spread, m.Extrapolated
		}
		if m.Decision != nil {
			rec.Algo, rec.Proto = &m.Decision.Algo, &m.Decision.Proto
		}
		if m.Channels > 0 {
			rec.Channels = &m.Channels
		}
		out = append(out, rec)
	}
	return out
}

type jsonPrinter struct {
	w        io.Writer
	document struct {
		Header   bench.Header         `json:"header"`
		Rows     []record             `json:"rows"`
		Verdict  string               `json:"verdict"`
		Cause    verdict.Cause        `json:"cause,omitempty"`
		Summary  string               `json:"summary,omitempty"`
		Reasons  []string             `json:"reasons"`
		Findings []verdict.Finding    `json:"findings"` // the reasons with their causes
		Load     *verdict.Load        `json:"load,omitempty"`
		Wrong    int64                `json:"wrong"`
		AvgBusB  float64              `json:"avg_busbw_gbs"`
		Budget   *bench.BudgetSummary `json:"budget,omitempty"`
		// with an earlier run
		Baseline bench.Comparison `json:"baseline,omitempty"`
		Failures []bench.Miss     `json:"failures,omitempty"` // rows that are not as asked for
	}
}

// NewJSON returns a printer of one JSON document that End writes: header, rows (one per measurement, so two per row of
// the table), verdict and reasons.
func NewJSON(w io.Writer) bench.Printer { return &jsonPrinter{w: w} }

// Begin stores the header.
func (p *jsonPrinter) Begin(h bench.Header) error {
	h.Notes = append([]string{}, h.Notes...)
	p.document.Header = h
	p.document.Rows = []record{}
	return nil
}

// Row stores a row.
func (p *jsonPrinter) Row(r bench.Row) error {
	p.document.Rows = append(p.document.Rows, records(r)...)
	return nil
}

// End writes the document.
func (p *jsonPrinter) End(s bench.Summary) error {
	v := &s.Verdict
	p.document.Verdict, p.document.Cause, p.document.Summary, p.document.Load = v.Word, v.Cause, v.Summary, v.Load
	p.document.Reasons, p.document.Findings = append([]string{}, v.Reasons...),
		append([]verdict.Finding{}, v.Findings...)
	p.document.Header.Notes = append(p.document.Header.Notes, v.Notes...)
	p.document.Wrong, p.document.AvgBusB, p.document.Budget = s.Wrong, rounded(s.AvgBusBW), s.Budget
	p.document.Baseline, p.document.Failures = s.Baseline, s.Failures
	encoder := json.NewEncoder(p.w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(p.document)
}

// csvColumns are the keys of a record that CSV has.
var csvColumns = []string{"size", "count", "type", "redop", "root", "inplace", "time_us", "algbw_gbs", "busbw_gbs",
	"wrong", "expected_us", "diff_percent", "time_min_us", "time_max_us", "algo", "proto", "channels"}

type csvPrinter struct {
	w     io.Writer
	notIn []string // see [bench.Header.NotIn]
}

// NewCSV returns a printer of comma-separated values: a line of names, then one line per measurement. The header and
// the verdict are comment lines ("#") before and after them.
func NewCSV(w io.Writer) bench.Printer { return &csvPrinter{w: w} }

func (p *csvPrinter) write(fields ...string) error {
	w := csv.NewWriter(p.w)
	if err := w.Write(fields); err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}

// Begin writes the header and the names.
func (p *csvPrinter) Begin(h bench.Header) error {
	p.notIn = h.NotIn
	var b strings.Builder
	fmt.Fprintf(&b,
		"# collective=%s nccl=%s cuda=%s profile=%s datapath=%s clock=%s time_scale=%g ranks=%d nodes=%d warmup=%d "+
			"iters=%d\n",
		h.Collective, h.NCCL, h.CUDA, h.Profile, h.Datapath, h.Clock, h.TimeScale, h.Ranks, h.Nodes, h.Warmup, h.Iters)
	if h.Fabric.Text != "" {
		fmt.Fprintf(&b, "# fabric: %s\n", h.Fabric.Text)
	}
	lines.Print(&b, "# %s\n", h.Notes)
	if _, err := io.WriteString(p.w, b.String()); err != nil {
		return err
	}
	return p.write(csvColumns...)
}

// Row writes a row's measurements: the values of their JSON, nothing for null.
func (p *csvPrinter) Row(r bench.Row) error {
	for _, rec := range records(r) {
		document, err := json.Marshal(rec)
		if err != nil {
			return err
		}
		var values map[string]json.RawMessage
		if err := json.Unmarshal(document, &values); err != nil {
			return err
		}
		var fields []string
		for _, name := range csvColumns {
			text := strings.Trim(string(values[name]), `"`)
			fields = append(fields, strings.TrimPrefix(text, "null"))
		}
		if err := p.write(fields...); err != nil {
			return err
		}
	}
	return nil
}

// End writes notes and the verdict.
func (p *csvPrinter) End(s bench.Summary) error {
	var b strings.Builder
	lines.Print(&b, "# %s\n", NotInText(p.notIn))
	lines.Print(&b, "# %s\n", compared(&s))
	lines.Print(&b, "# note: %s\n", s.Verdict.Notes)
	lines.Print(&b, "# %s\n", s.Lines)
	fmt.Fprintf(&b, "# verdict: %s\n", s.Verdict.Word)
	_, err := io.WriteString(p.w, b.String())
	return err
}
