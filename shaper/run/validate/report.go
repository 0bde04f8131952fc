// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// Limits of the error in percent. They are smaller for large sizes, whose time does not depend on the hosts.
const (
	largeSize  = 16 << 20 // bytes
	largeLimit = 5.0
	smallLimit = 15.0
)

// Limit is the limit of the error in percent for a call of size bytes.
func Limit(size int64) float64 {
	if size >= largeSize {
		return largeLimit
	}
	return smallLimit
}

// Line is a row of the report. Times are microseconds of the real network. Emulated is 0 if nothing was run, Expected
// if the model does not know it.
type Line struct {
	Size      int64   `json:"size"`
	Published float64 `json:"published_us"`
	Expected  float64 `json:"expected_us"`
	Emulated  float64 `json:"emulated_us,omitempty"`
	TimeScale int     `json:"time_scale,omitempty"`
	Error     float64 `json:"error_percent"` // of the emulated time, or of the expected one if nothing was run
	Limit     float64 `json:"limit_percent"`
	Within    bool    `json:"within_limit"`
	Fitted    bool    `json:"fitted,omitempty"` // figures that the time is calculated with were fitted to this row
}

// newLine compares the emulated time, or the expected one if that is 0, with the published one.
func newLine(r *testslog.Row, expected, emulated time.Duration, scale int) Line {
	l := Line{Size: r.Size, Published: units.Microseconds(r.OutOfPlace.Time), Expected: units.Microseconds(expected),
		Emulated: units.Microseconds(emulated), TimeScale: scale, Limit: Limit(r.Size)}
	got := cmp.Or(l.Emulated, l.Expected)
	l.Error = 100 * (got/l.Published - 1)
	l.Within = got > 0 && math.Abs(l.Error) <= l.Limit
	return l
}

// Report is the outcome of a validation.
type Report struct {
	Name    string `json:"table"` // name of the file
	System  string `json:"system,omitempty"`
	Source  string `json:"source,omitempty"`
	Profile string `json:"profile"`
	NCCL    string `json:"nccl"`
	CUDA    string `json:"cuda"`
	GPU     string `json:"gpu,omitempty"` // kind of GPU of the measured cluster, if the table says it
	Nodes   int    `json:"nodes"`
	// Class is the class of calls whose errors are alike.
	Class intervals.Class `json:"class"`
	// OtherNCCL says that the table was measured with another version of NCCL, or an unknown one; "" if not.
	OtherNCCL       string `json:"other_nccl,omitempty"`
	RanksPerProcess int    `json:"ranks_per_process,omitempty"` // of the measurement
	// Predicted says that the expected times are by figures that were fitted to other tables only.
	Predicted bool `json:"predicted,omitempty"`

	Lines   []Line           `json:"rows"`
	LeftOut []tables.LeftOut `json:"left_out,omitempty"`
	Notes   []string         `json:"notes,omitempty"`
	// Verdict is VALID if this host carried the fabric for every row, else INVALID; incomplete if the run was
	// interrupted or stopped by its budget; "" if nothing was run. Cause and Summary are of INVALID, Reasons has
	// the texts of Findings. Conclusion is all of it.
	Verdict    string            `json:"verdict,omitempty"`
	Cause      verdict.Cause     `json:"cause,omitempty"`
	Summary    string            `json:"summary,omitempty"`
	Reasons    []string          `json:"reasons,omitempty"`
	Findings   []verdict.Finding `json:"findings,omitempty"`
	Conclusion verdict.Verdict   `json:"-"`
	// Fabric is what the fabric has in force.
	Fabric configs.InForce `json:"fabric_in_force,omitzero"`
}

// conclude copies the conclusion to the fields of JSON.
func (r *Report) conclude() {
	v := &r.Conclusion
	r.Verdict, r.Cause, r.Summary, r.Reasons, r.Findings = v.Word, v.Cause, v.Summary, v.Reasons, v.Findings
}

// MarkFitted marks the rows of at most upTo bytes: figures were fitted to them.
func (r *Report) MarkFitted(upTo int64) {
	for i := range r.Lines {
		r.Lines[i].Fitted = r.Lines[i].Size <= upTo
	}
}

// Line is the row of a size; nil if there is none.
func (r *Report) Line(size int64) *Line {
	for i := range r.Lines {
		if r.Lines[i].Size == size {
			return &r.Lines[i]
		}
	}
	return nil
}

// Outside returns the rows that exceed their limits.
func (r *Report) Outside() []Line {
	return slices.DeleteFunc(slices.Clone(r.Lines), func(l Line) bool { return l.Within })
}
