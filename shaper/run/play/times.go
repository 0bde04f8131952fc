// SPDX-License-Identifier: Apache-2.0

package play

import (
	"encoding/csv"
	"io"
	"strconv"
)

// WriteTimes writes when each operation of each rank ran, as CSV: the line of the workload, and times in microseconds
// since the job began.
func (r *Result) WriteTimes(w io.Writer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"rank", "step", "line", "op", "name", "stream", "ready_us", "end_us"}) // Flush tells errors
	for rank, p := range r.Facts.plans {
		step := 0
		for i := range p.items {
			for step < len(p.marks)-1 && i >= p.marks[step] {
				step++
			}
			it, span := &p.items[i], r.spans[rank][i]
			us := func(ns int64) string {
				return strconv.FormatFloat(float64(ns)/1000/float64(r.Scale), 'f', 3, 64)
			}
			stream := ""
			if it.op.Kind.HasStream() {
				stream = it.op.StreamName()
			}
			out.Write([]string{
				strconv.Itoa(rank), strconv.Itoa(step + 1), strconv.Itoa(it.line), string(it.op.Kind),
				r.Facts.describe(it), stream, us(span.Ready), us(span.End),
			})
		}
	}
	out.Flush()
	return out.Error()
}
