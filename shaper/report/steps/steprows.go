// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// mostSteps is how many rows a table of steps has. JSON has all steps.
const mostSteps = 20

// stepRow is a row of a table of steps: one step, or several in a row that print the same.
type stepRow struct {
	first, last int // from 0
	text        string
	time        time.Duration // of the first one
}

// name is the number of the step, or the first and the last one.
func (r *stepRow) name() string {
	if r.first == r.last {
		return strconv.Itoa(r.first + 1)
	}
	return fmt.Sprintf("%d-%d", r.first+1, r.last+1)
}

// foldSteps are the rows of n steps with these texts and times. Up to mostSteps each step has its row. Of more, those
// in a row with one text share a row. If there are still too many rows, the first one is left and those whose times
// differ most from the median, and note says what was left out; else it is "".
func foldSteps(n int, text func(step int) string, took func(step int) time.Duration) (rows []stepRow, note string) {
	for i := range n {
		row := stepRow{first: i, last: i, text: text(i), time: took(i)}
		if last := len(rows) - 1; n > mostSteps && last >= 0 && rows[last].text == row.text {
			rows[last].last = i
			continue
		}
		rows = append(rows, row)
	}
	if len(rows) <= mostSteps {
		return rows, ""
	}
	middle := medianOf(n, took)
	order := slices.Clone(rows[1:])
	slices.SortStableFunc(order,
		func(a, b stepRow) int { return cmp.Compare((b.time - middle).Abs(), (a.time - middle).Abs()) })
	shown, left := order[:mostSteps-1], order[mostSteps-1:]
	slices.SortFunc(shown, func(a, b stepRow) int { return cmp.Compare(a.first, b.first) })
	steps, least, most := 0, left[0].time, left[0].time
	for _, r := range left {
		steps += r.last - r.first + 1
		least, most = min(least, r.time), max(most, r.time)
	}
	return slices.Concat(rows[:1], shown),
		fmt.Sprintf(
			"%d more steps, of %s to %s ms: see --json; shown are the first one and those that differ most from the "+
				"median, %s ms",
			steps, milliseconds(least), milliseconds(most), milliseconds(middle))
}

// medianOf is the median of the times of n steps.
func medianOf(n int, took func(step int) time.Duration) time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = took(i)
	}
	slices.Sort(all)
	return all[n/2]
}
