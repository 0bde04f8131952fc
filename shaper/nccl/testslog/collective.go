// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Collective is the collective of a table: the one that it names, else the first of prefer that it can be of, else the
// only one that it can be of. The error says why the table cannot be judged.
func (t *Test) Collective(prefer ...nccl.Collective) (of nccl.Collective, err error) {
	if t.Name != "" {
		if of, err = nccl.ParseCollective(t.Name); err == nil {
			err = t.Fits(of)
		}
		return of, err
	}
	can := func(c nccl.Collective) bool { return t.Fits(c) == nil && t.Likely(c) }
	if i := slices.IndexFunc(prefer, can); i >= 0 {
		return prefer[i], nil
	}
	n := 0
	for i := range nccl.Collectives() {
		// The rows of a hypercube look like the rows of an all_gather, which is what people measure.
		if c := nccl.Collective(i); c != nccl.HyperCube && can(c) {
			of, n = nccl.Collective(i), n+1
		}
	}
	if n != 1 {
		err = errors.New("no line says of which collective")
	}
	return of, err
}

// Fits says why a table cannot be of a collective, nil if it can. nccl-tests writes none, or nothing, if nothing is
// reduced; but sendrecv_perf goes through its operators as the reductions do.
func (t *Test) Fits(c nccl.Collective) error {
	if t.CPUTime {
		return fmt.Errorf("line %d: the times are times of the host's threads (-C): measure without it", t.Line)
	}
	if t.Name != "" {
		if of, err := nccl.ParseCollective(t.Name); err != nil || of != c {
			return fmt.Errorf("line %d: the table is of %s, not of %v: give the log's collective", t.Line, t.Name, c)
		}
	}
	for _, r := range t.Rows {
		reduces := r.Op != "none" && r.Op != ""
		if reduces == c.Reduces() || c == nccl.SendRecv {
			continue
		}
		if r.Op == "" {
			return fmt.Errorf("line %d: a table without redop is not of %v: give the log's collective", r.Line, c)
		}
		return fmt.Errorf("line %d: redop %s is not of %v: give the log's collective", r.Line, r.Op, c)
	}
	return nil
}

// Likely says whether roots and bandwidths of a table that names no collective fit c.
func (t *Test) Likely(c nccl.Collective) bool {
	if t.Name != "" {
		return true
	}
	inPlace, unchecked := 0, 0
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Root >= 0 != c.Rooted() {
			return false
		}
		if t.Ranks > 0 && math.Abs(r.Ratio()-c.BusFactor(t.Ranks)) > 0.03 { // false for NaN
			return false
		}
		if r.InPlace != nil && r.OutOfPlace.Wrong >= 0 {
			inPlace++
			if r.InPlace.Wrong < 0 {
				unchecked++
			}
		}
	}
	// Since 2.13.1 nccl-tests does not check these two in place.
	return inPlace == 0 || (unchecked == inPlace) == !c.HasInPlace()
}
