// SPDX-License-Identifier: Apache-2.0

// Package steps says how the steps of a workload went: as text, as JSON and as a plot, on one fabric, on two, or over
// the values of a parameter.
package steps

import (
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/run/play"
)

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
