// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"encoding/json"
	"slices"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/bounds"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// readPredictions reads files of `ddlemu fit --predict each`: the predictions of tables by figures that were fitted to
// others, by the names of the tables.
func readPredictions(files []string) (map[string]*validate.Report, error) {
	all := map[string]*validate.Report{}
	for _, file := range files {
		data, err := bounds.ReadFile(file)
		if err != nil {
			return nil, cli.BadInput("--predicted: %w", err)
		}
		var r fitReport
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, cli.BadInput("--predicted: %s: %w", file, err)
		}
		if len(r.Tables) == 0 {
			return nil, cli.BadInput("--predicted: %s has no predictions: make it with `ddlemu fit KIND --predict each`", file)
		}
		for _, t := range r.Tables {
			if all[t.Name] != nil {
				return nil, cli.BadInput("--predicted: %s: %s is in another file, too", file, t.Name)
			}
			all[t.Name] = t
		}
	}
	return all, nil
}

// predicted is the report on a table if each of its rows is predicted, or the model knows no time of it; else nil.
func (a *all) predicted(name string, t *tables.Table) *validate.Report {
	p := a.predictions[name]
	if p == nil {
		return nil
	}
	r := *p
	r.Lines, r.LeftOut = nil, slices.Clone(t.LeftOut)
	for _, row := range t.Rows {
		i := slices.IndexFunc(p.LeftOut, func(l tables.LeftOut) bool { return l.Size == row.Size })
		switch line := p.Line(row.Size); {
		case line != nil:
			r.Lines = append(r.Lines, *line)
		case i >= 0:
			r.LeftOut = append(r.LeftOut, p.LeftOut[i])
		default:
			return nil
		}
	}
	return &r
}

// replace puts the predictions of rows in the place of times that are calculated with figures that were fitted to them.
// Such rows without a prediction are left out. A table that has no predictions stays as it is.
func (a *all) replace(r *validate.Report) {
	p := a.predictions[r.Name]
	if p == nil {
		return
	}
	lines := r.Lines
	r.Lines, r.Predicted = nil, true
	for _, l := range lines {
		line := &l
		if l.Fitted {
			line = p.Line(l.Size)
		}
		if line != nil {
			r.Lines = append(r.Lines, *line)
			continue
		}
		const why = "figures were fitted to it, and it is not predicted without them"
		r.LeftOut = append(r.LeftOut, tables.LeftOut{Size: l.Size, Reason: why})
	}
}
