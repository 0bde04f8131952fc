// SPDX-License-Identifier: Apache-2.0

package printer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// decisions summarises what NCCL decided for the rows of a table.
type decisions struct {
	kinds []kindDecisions // in the order of the table
}

// kindDecisions are the decisions for the rows with one data type and one operator.
type kindDecisions struct {
	kind string // such as "float sum"
	runs []decisionRun
}

// decisionRun is a sequence of rows with the same decision.
type decisionRun struct {
	from, to int64  // bytes
	what     string // such as "Ring LL x2", "" if not known
}

// add adds the decision for r, out of place: NCCL decides the same in place.
func (c *decisions) add(r bench.Row) {
	kind := r.Type.String()
	if r.Op != "none" {
		kind += " " + r.Op
	}
	i := slices.IndexFunc(c.kinds, func(k kindDecisions) bool { return k.kind == kind })
	if i < 0 {
		i = len(c.kinds)
		c.kinds = append(c.kinds, kindDecisions{kind: kind})
	}
	c.kinds[i].add(r.Size, decisionText(&r.OutOfPlace))
}

// add extends the last run or begins a new one. Sizes rise, so it ignores later cycles.
func (k *kindDecisions) add(size int64, what string) {
	n := len(k.runs)
	switch {
	case n > 0 && size <= k.runs[n-1].to:
	case n > 0 && k.runs[n-1].what == what:
		k.runs[n-1].to = size
	default:
		k.runs = append(k.runs, decisionRun{from: size, to: size, what: what})
	}
}

func decisionText(m *bench.Measurement) string {
	if m.Decision == nil {
		return ""
	}
	text := m.Decision.Algo + " " + m.Decision.Proto
	if m.Channels > 0 {
		text += fmt.Sprintf(" x%d", m.Channels)
	}
	return text
}

// lines returns one line for each kind with known decisions. A line names its kind if there are several.
func (c *decisions) lines() []string {
	var lines []string
	for _, k := range c.kinds {
		var runs []string
		for _, r := range k.runs {
			switch {
			case r.what == "":
			case r.from == r.to:
				runs = append(runs, fmt.Sprintf("%d bytes %s", r.from, r.what))
			default:
				runs = append(runs, fmt.Sprintf("%d to %d bytes %s", r.from, r.to, r.what))
			}
		}
		line := strings.Join(runs, "; ")
		if line != "" && len(c.kinds) > 1 {
			line = k.kind + ": " + line
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
