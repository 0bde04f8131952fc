// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// Parts is where the time of calls goes along their critical path.
type Parts struct {
	Calls int        `json:"calls"` // back to back
	Rank  int        `json:"last_rank"`
	NS    int64      `json:"ns"`    // of all calls together: the sum of the parts
	Parts []PartTime `json:"parts"` // those above 0, in an order that does not depend on the call
}

// PartTime is the time of one part.
type PartTime struct {
	Part    string  `json:"part"`
	NS      int64   `json:"ns"` // of all calls together
	US      float64 `json:"us"` // of a call
	Percent float64 `json:"percent"`

	part expect.Part
}

// PartsOf converts an explanation; nil for nil.
func PartsOf(e *expect.Explanation, c *configs.Fabric) *Parts {
	if e == nil {
		return nil
	}
	out := &Parts{Calls: e.Calls, Rank: e.Rank, NS: e.Spent.Sum(), Parts: []PartTime{}}
	for p, ns := range e.Spent {
		if ns > 0 {
			out.Parts = append(out.Parts, PartTime{Part: partName(expect.Part(p), c), NS: ns,
				US: float64(ns) / float64(1000*e.Calls), Percent: 100 * float64(ns) / float64(out.NS), part: expect.Part(p)})
		}
	}
	return out
}

// partName is the name of a part on a fabric: GPUs without NVLinks have PCI Express in their place.
func partName(p expect.Part, c *configs.Fabric) string {
	if c.NodeNVLink().Links > 0 {
		return p.String()
	}
	return strings.Replace(p.String(), "NVLink", "PCIe", 1)
}

// PartNames are the names of the parts that any of several calls has, in their order.
func PartNames(of []*Parts) (names []string) {
	known := map[expect.Part]string{}
	for _, p := range of {
		for _, t := range p.Parts {
			known[t.part] = t.Part
		}
	}
	for _, part := range slices.Sorted(maps.Keys(known)) {
		names = append(names, known[part])
	}
	return names
}

// Of is the time of the part with a name; the zero PartTime if it has none.
func (p *Parts) Of(name string) PartTime {
	for _, t := range p.Parts {
		if t.Part == name {
			return t
		}
	}
	return PartTime{}
}

// US is the mean time of a call.
func (p *Parts) US() float64 { return float64(p.NS) / float64(1000*p.Calls) }

// explainRows adds to each row where its time goes, if the forecast says so, and notes of which rows not all calls were
// explained.
func (r *Report) explainRows(rows []emulate.Forecast, c *configs.Fabric) {
	for i := range rows {
		f := &rows[i]
		if r.Rows[i].Parts = PartsOf(f.Explained, c); f.Explained != nil && f.Explained.Calls < f.Case.Iters {
			r.Notes = append(r.Notes, fmt.Sprintf("size %d: the parts are the parts of %s of %d, which take long to calculate",
				f.Case.Size, units.Count(f.Explained.Calls, "call"), f.Case.Iters))
		}
	}
}
