// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/host"
)

// An attempt that is repeated keeps its rows, if the repetition is interrupted or the budget does not suffice for it.
func TestStoppedRepetition(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cause  error // why the repetition ends
		starts bool  // the ranks of the repetition start
		word   string
		says   string // where the verdict says what the rows are
	}{
		{"interrupted", context.Canceled, true, verdict.Incomplete,
			"attempt 2 of 3 at most: interrupted: 1 of 2 rows measured; the rows are from attempt 1, at time scale 4, which was INVALID: host: late"},
		{"interrupted before it starts", context.Canceled, false, verdict.Incomplete,
			"attempt 2 of 3 at most: interrupted: no row measured; the rows are from attempt 1, at time scale 4, which was INVALID: host: late"},
		{"budget", errSpent, true, "INVALID",
			"attempt 2 of 3 at most: the budget of 5s was spent: 1 of 2 rows measured; the rows are from attempt 1, at time scale 4"},
		{"budget spent before it starts", errSpent, false, "INVALID",
			"attempt 2 of 3 at most: the budget of 5s was spent: no row measured; the rows are from attempt 1, at time scale 4"},
	} {
		for _, lastOnly := range []bool{true, false} {
			var out, log strings.Builder
			o := Options{Config: configs.Fabric{TimeScale: 4}, Log: &log,
				Budget: Budget{Total: 5e9}}
			o.Budget.End = time.Now().Add(time.Hour)
			o.Output = Output{LastOnly: lastOnly, Printer: func() bench.Printer { return printer.NewJSON(&out) }}
			o.Scale = func(context.Context) (host.Selection, error) { return host.Selection{}, nil }
			ctx, stop := context.WithCancelCause(t.Context())
			first := verdict.New(nil)
			first.Add(verdict.Finding{Cause: verdict.CauseHost, Text: "late", Slow: true})
			rows := []bench.Row{{Size: 8}, {Size: 16}}
			made := 0
			got, err := o.attempts(ctx, "", func(ctx context.Context, notes []string, p bench.Printer) (Outcome,
				error) {
				if made++; made == 1 {
					result := bench.Result{Rows: rows}
					return Outcome{Verdict: first, Scale: 4, Result: result}, errors.Join(
						p.Begin(bench.Header{TimeScale: 4}), p.Row(rows[0]), p.Row(rows[1]),
						p.End(bench.NewSummary(result, first, "")))
				}
				stop(tc.cause)
				pace := o.newPacer(0, nil)
				ended := ended{pace, p, bench.Result{}, func() error { return p.Begin(bench.Header{TimeScale: 8}) }}
				if tc.starts {
					pace.rows, pace.left = 2, make([]bench.Case, 2)
					ended.result.Rows = rows[:1]
					ended.begin = func() error { return nil }
					if err := errors.Join(p.Begin(bench.Header{TimeScale: 8}), p.Row(rows[0])); err != nil {
						t.Fatal(err)
					}
				}
				v, err := o.incomplete(ctx, ended, fmt.Errorf("run: %w", context.Cause(ctx)))
				return Outcome{Verdict: v, Scale: 8, Result: ended.result}, err
			})
			name := fmt.Sprintf("%s, lastOnly %v", tc.name, lastOnly)
			if made != 2 || len(got.Result.Rows) != 2 || got.Scale != 4 || got.Verdict.Word != tc.word ||
				errors.Is(err, context.Canceled) != errors.Is(tc.cause, context.Canceled) ||
				(err == nil) != errors.Is(tc.cause, errSpent) {
				t.Errorf("%s: %d attempts, %d rows, scale %d, %q, %v", name, made, len(got.Result.Rows), got.Scale,
					got.Verdict.Word, err)
			}
			if said := strings.Join(append(got.Verdict.Reasons, got.Verdict.Notes...), "\n"); !strings.Contains(said,
				tc.says) {
				t.Errorf("%s: the verdict says %q", name, said)
			}
			if !lastOnly {
				continue // all that was measured was printed when it was measured
			}
			var doc struct {
				Header struct {
					TimeScale int `json:"time_scale"`
				}
				Rows    []struct{ Size int }
				Verdict string
			}
			if err := json.Unmarshal([]byte(out.String()), &doc); err != nil || len(doc.Rows) != 2 ||
				doc.Header.TimeScale != 4 || doc.Verdict != tc.word || !strings.Contains(out.String(), tc.says) {
				t.Errorf("%s: %v: %s", name, err, out.String())
			}
		}
	}
}
