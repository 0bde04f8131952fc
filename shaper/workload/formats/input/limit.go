// SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// MaxOps is how many operations a job may have, and how many calls, nodes and lines of its files are kept in memory, if
// the options say nothing else. Each takes about 1 KB, so that a file of any size needs less than 500 MB.
const MaxOps = 400_000

// smallPerOp is how many small records may be kept for each operation.
const smallPerOp = 5

// Limit counts the records of all files of a job that are kept in memory. A nil one has no limit.
type Limit struct{ most, n, small, listed int }

// NewLimit is a limit of so many; 0 is MaxOps.
func NewLimit(most int) *Limit {
	if most == 0 {
		most = MaxOps
	}
	return &Limit{most: most}
}

// Add counts one more.
func (l *Limit) Add() error {
	if l == nil {
		return nil
	}
	l.n++
	return l.Check(l.n)
}

// AddSmall counts more records of at most 100 bytes that are no operations, such as when a kernel ran.
func (l *Limit) AddSmall(records int) error {
	if l == nil {
		return nil
	}
	if l.small += records; l.small > smallPerOp*l.most {
		return fmt.Errorf(
			"the job has more than %d records of kernels and calls: --max-ops N reads more, %d N of these",
			smallPerOp*l.most, smallPerOp)
	}
	return nil
}

// Check fails if n are too many.
func (l *Limit) Check(n int) error {
	if l == nil || n <= l.most {
		return nil
	}
	return fmt.Errorf(
		"the job has more than %d calls, nodes or operations: --max-ops N reads more, at about 1 KB of memory each",
		l.most)
}

// List counts the ranks of one more group. A file asks for many with a number.
func (l *Limit) List(ranks int) error {
	if l == nil {
		return nil
	}
	if l.listed += ranks; l.listed > workload.MaxListed {
		return fmt.Errorf("the groups have more than %d ranks together: give the files of fewer groups",
			workload.MaxListed)
	}
	return nil
}

// Room is n, or the limit if n is more.
func (l *Limit) Room(n int) int {
	if l == nil {
		return n
	}
	return min(n, l.most)
}
