// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// lastHeader is a printer that keeps the header of the last attempt.
type lastHeader struct{ bench.Header }

// Begin replaces the header of an earlier attempt.
func (l *lastHeader) Begin(h bench.Header) error {
	l.Header = h
	return nil
}

// Row has nothing to keep: the rows are in the outcome.
func (l *lastHeader) Row(bench.Row) error { return nil }

// End has nothing to keep: the verdict is in the outcome.
func (l *lastHeader) End(bench.Summary) error { return nil }

// benchSuite makes a test case of each row that was planned. err is why the run ended early, if it did.
func benchSuite(b bench.Config, h *bench.Header, out *emulate.Outcome, j *judges, err error) junit.Suite {
	collective, v := b.Collective.String(), &out.Verdict
	class := "bench." + collective
	s := junit.Suite{Name: "bench " + collective, Properties: slices.Concat(properties(
		"profile", h.Profile, "nccl", h.NCCL, "cuda", h.CUDA, "datapath", h.Datapath, "clock",
		h.Clock, "time_scale",
		number(float64(out.Scale)),
		"ranks", strconv.Itoa(b.Ranks), "nodes", number(float64(h.Nodes)), "verdict", v.Word, "cause", string(v.Cause),
		"summary", v.Summary,
	), properties(h.Fabric.Properties()...))}
	rest, times := out.Result.Rows, 0
	cases := b.Cases()
	for i, planned := range cases {
		c := junit.Case{Class: class, Name: caseName(b, planned, i)}
		switch {
		case len(rest) == 0 || !isRow(rest[0], planned):
			c.Skipped = "not measured" // left out to fit a budget, or the run ended before
		default:
			c.Time = rest[0].OutOfPlace.Time
			judgeCase(&c, rest[0], *v, j.missed(rest[0], times))
			times += len(rest[0].Measurements())
			rest = rest[1:]
		}
		s.Cases = append(s.Cases, c)
	}
	s.Cases = append(s.Cases, ending(class, v.Word, v.Summary, err)...)
	s.Out = strings.Join(v.Notes, "\n")
	return s
}

// number is a positive number as text, "" for 0.
func number(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// isRow says whether r is the row that was planned.
func isRow(r bench.Row, planned bench.Case) bool {
	return r.Size == planned.Size && r.Type == planned.Type && (r.Op == "none" || r.Op == planned.Op.String())
}

// caseName names row i of b.Cases(). A name stays the same if other sizes are measured.
func caseName(b bench.Config, c bench.Case, i int) string {
	name := fmt.Sprintf("%s %d bytes %v", c.Collective, c.Size, c.Type)
	if c.Collective.Reduces() {
		name += " " + c.Op.String()
	}
	if b.Cycles > 1 {
		name += fmt.Sprintf(" cycle %d", i/len(b.Sizes)%b.Cycles+1)
	}
	return name
}

// judges are what the rows of a run are held to.
type judges struct {
	limits   *thresholds
	baseline *baseline.Comparison // nil if there is none
}

// missed returns what of a row is not as asked for. Its first time is number first of the run.
func (j *judges) missed(r bench.Row, first int) []bench.Miss {
	out := j.limits.missed(r)
	for i := range r.Measurements() {
		if slower := j.baseline.SlowerAt(first + i); slower != nil {
			out = append(out, bench.Miss{Type: "baseline", Text: slower.String()})
		}
	}
	return out
}

// judgeCase sets the error or the failure of a row: an INVALID verdict comes first, because then its times say nothing.
func judgeCase(c *junit.Case, r bench.Row, v verdict.Verdict, missed []bench.Miss) {
	wrong := int64(0)
	for _, m := range r.Measurements() {
		if wrong += m.Wrong; m.Wrong > 0 && c.Failure == nil {
			c.Failure = &junit.Problem{Type: "wrong", Message: m.Mismatch}
		}
	}
	switch {
	case wrong > 0:
		c.Failure.Message = units.Count(int(wrong), "wrong element") + ": " + c.Failure.Message
	case v.Word == "INVALID":
		c.Error = invalidProblem(v.Cause, v.Summary, v.Lines(cli.VerboseFlag))
	case len(missed) > 0:
		var lines []string
		for _, m := range missed {
			lines = append(lines, m.Text)
		}
		c.Failure = &junit.Problem{Type: missed[0].Type, Message: missed[0].Text, Text: strings.Join(lines, "\n")}
	}
}
