// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"fmt"
	"os/exec"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Version is the version of a Debian package of NCCL, such as 2.22.3-1-1.
type Version string

// NCCL returns NCCL's version number: 22203 for 2.22.3.
func (v Version) NCCL() (int, error) {
	upstream, _, _ := strings.Cut(string(v), "-")
	fields := strings.Split(upstream, ".")
	if len(fields) != 3 {
		return 0, fmt.Errorf("parse NCCL version %q: want MAJOR.MINOR.PATCH", v)
	}
	var n [3]int
	for i, field := range fields {
		var err error
		if n[i], err = strconv.Atoi(field); err != nil || n[i] < 0 || n[i] > 99 {
			return 0, fmt.Errorf("parse NCCL version %q: %q is not a number from 0 to 99", v, field)
		}
	}
	return n[0]*10000 + n[1]*100 + n[2], nil
}

// Line returns the release line: 2.22 for 2.22.3-1-1.
func (v Version) Line() string {
	fields := strings.SplitN(string(v), ".", 3)
	if len(fields) < 2 {
		return string(v)
	}
	return fields[0] + "." + fields[1]
}

// Candidate is a package that can be selected.
type Candidate struct {
	Version Version
	// Source is the package's suite, such as "sid", or "file" for a file in the cache.
	Source string
}

// Refusal is a candidate that is not supported.
type Refusal struct {
	Candidate
	Reason string
}

// newest returns the newest candidate that is wanted and supported; the first of equal versions. Wanted candidates that
// are newer, but not supported, are returned as refused. ok is false if there is no such candidate.
func newest(all []Candidate, wanted func(Version) bool, supported func(nccl int) bool) (best Candidate,
	refused []Refusal, ok bool) {
	sorted := slices.Clone(all)
	sort.SliceStable(sorted, func(i, j int) bool { return newer(sorted[i].Version, sorted[j].Version) })
	for _, c := range sorted {
		if !wanted(c.Version) {
			continue
		}
		nccl, err := c.Version.NCCL()
		switch {
		case err != nil:
			refused = append(refused, Refusal{c, err.Error()})
		case !supported(nccl):
			refused = append(refused,
				Refusal{c, "the executor does not support this version: the layout of its data structures is unknown"})
		default:
			return c, refused, true
		}
	}
	return Candidate{}, refused, false
}

// newer says whether Debian's version a is newer than b.
func newer(a, b Version) bool {
	return exec.Command("dpkg", "--compare-versions", string(a), "gt", string(b)).Run() == nil
}
