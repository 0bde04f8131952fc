// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Got is what a row was asked for and has got.
type Got struct {
	Size          int64
	Asked, Iters  int  // timed iterations
	Dropped, Over bool // it was left out; it was stopped because it ran over
}

// Dropped are the sizes of the rows that were left out or stopped.
func Dropped(rows []Got) []int64 {
	var sizes []int64
	for _, r := range rows {
		if r.Dropped || r.Over {
			sizes = append(sizes, r.Size)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// Tell says what a budget has cost: "budget 2m: 3 of 20 iterations for rows above 64M; rows above 256M dropped". It is
// empty if nothing was dropped. scale is the time scale, which makes all rows longer; 0 if the clock has none.
func Tell(budget time.Duration, scale int, rows []Got) string {
	var parts []string
	var measured []Got
	for _, r := range rows {
		if !r.Dropped && !r.Over {
			measured = append(measured, r)
		}
	}
	fewer := func(r Got) bool { return r.Iters < r.Asked }
	if text := which(measured, fewer); text != "" {
		low, high, asked := 0, 0, 0
		for _, r := range measured {
			if fewer(r) {
				if high == 0 {
					low, asked = r.Iters, r.Asked
				}
				low, high = min(low, r.Iters), max(high, r.Iters)
			}
		}
		iters := fmt.Sprint(low)
		if high > low {
			iters = fmt.Sprintf("%d to %d", low, high)
		}
		if text == allRows && len(measured) < len(rows) {
			text = "the other rows"
		}
		parts = append(parts, fmt.Sprintf("%s of %d iterations for %s", iters, asked, text))
	}
	for _, r := range rows {
		if r.Over {
			parts = append(parts, fmt.Sprintf("row of %s stopped because it ran over", Size(r.Size)))
		}
	}
	if text := which(rows, func(r Got) bool { return r.Dropped }); text != "" {
		parts = append(parts, text+" dropped")
	}
	if len(parts) == 0 {
		return ""
	}
	at := ""
	if scale > 1 {
		at = fmt.Sprintf(" at time scale %d", scale)
	}
	return "budget " + Duration(budget) + at + ": " + strings.Join(parts, "; ")
}

const allRows = "all rows"

// which names rows by their sizes: "rows above 64M" if all larger ones are meant and no others, else each size.
func which(rows []Got, meant func(Got) bool) string {
	var sizes, others []int64
	for _, r := range rows {
		if meant(r) {
			sizes = append(sizes, r.Size)
		} else {
			others = append(others, r.Size)
		}
	}
	n := len(sizes)
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	some := ""
	if slices.ContainsFunc(others, func(size int64) bool { return slices.Contains(sizes, size) }) {
		some = "some "
	}
	switch {
	case n == 0:
		return ""
	case n == 1 && some == "":
		return "the row of " + Size(sizes[0])
	case len(others) == 0:
		return allRows
	case len(sizes) > 1 && slices.Max(others) < sizes[0]:
		return "rows above " + Size(slices.Max(others))
	}
	return some + "rows of " + list(sizes)
}

// list names a few sizes, or the first and the last of many.
func list(sizes []int64) string {
	const few = 4
	if len(sizes) > few {
		return fmt.Sprintf("%d sizes from %s to %s", len(sizes), Size(sizes[0]), Size(sizes[len(sizes)-1]))
	}
	var names []string
	for _, s := range sizes {
		names = append(names, Size(s))
	}
	return strings.Join(names, ", ")
}

// Size formats a size as nccl-tests' flags have it: 64K, 1G, or bytes.
func Size(bytes int64) string {
	for i, unit := range "GMK" {
		if one := int64(1) << (30 - 10*i); bytes >= one && bytes%one == 0 {
			return fmt.Sprintf("%d%c", bytes/one, unit)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// Duration formats a time without units that are 0: 2m, 1m30s.
func Duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
