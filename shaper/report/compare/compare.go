// SPDX-License-Identifier: Apache-2.0

// Package compare joins the rows of two outputs. All comparisons of two outputs use it: a run with its baseline, a
// workload on two fabrics, two traced jobs.
package compare

// Joined are the rows of two outputs.
type Joined[R any] struct {
	Pairs [][2]R // rows that both have, in the order of the first output
	Only  [2][]R // rows that only one has
}

// Rows joins the rows of two outputs that have the same key. Of several rows with one key, the first one is joined with
// the first one of the other output, and so on.
func Rows[R any, K comparable](a, b []R, key func(R) K) (j Joined[R]) {
	left := map[K][]int{}
	for i, r := range b {
		left[key(r)] = append(left[key(r)], i)
	}
	taken := map[int]bool{}
	for _, r := range a {
		same := left[key(r)]
		if len(same) == 0 {
			j.Only[0] = append(j.Only[0], r)
			continue
		}
		taken[same[0]], left[key(r)] = true, same[1:]
		j.Pairs = append(j.Pairs, [2]R{r, b[same[0]]})
	}
	for i, r := range b {
		if !taken[i] {
			j.Only[1] = append(j.Only[1], r)
		}
	}
	return j
}

// Percent is by how much after is more than before, nil if before is nothing.
func Percent(before, after float64) *float64 {
	if before <= 0 {
		return nil
	}
	return new(100 * (after/before - 1))
}
