// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/report/sweep"
)

// NewSweep is the sweep of the expected times of a collective at the first values.
func NewSweep(v *sweep.Values, collective string, reports []*Report) *sweep.Sweep[*Report] {
	return sweep.New(v, reports, func(r *Report) sweep.Point {
		p := sweep.Point{Result: r}
		for i := range r.Rows {
			row := &r.Rows[i]
			c := sweep.Call{What: fmt.Sprintf("%s of %d bytes", collective, row.Size), Size: row.Size,
				Choice: strings.TrimSpace(row.Algo + " " + row.Proto), Unknown: row.ExpectedUS == nil}
			if !c.Unknown {
				c.Time = time.Duration(*row.ExpectedUS*1e3 + 0.5)
			}
			p.Calls = append(p.Calls, c)
		}
		p.Timed = p.Calls
		return p
	})
}
