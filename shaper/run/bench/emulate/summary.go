// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// named is the maximum number of times that the summary names.
const named = 3

// summary says in three lines what the log shows: what a call costs beyond the network, the bandwidth of large calls,
// and which times to look at.
func (r *Report) summary() []string {
	first := "fixed cost: " + r.fixedText()
	if r.NodeTime != "" {
		first = "small calls: " + r.smallText()
	}
	return []string{first, "bandwidth: " + r.bandwidthText(), "rows: " + r.rowsText()}
}

func (r *Report) fixedText() string {
	switch f := r.Fixed; {
	case f == nil:
		return "not known, as no part of the log takes the same time for several sizes: all time counts as the " +
			"network's"
	case f.US < 0.5:
		return "none: the network explains the small calls"
	default:
		return fmt.Sprintf(
			"%.0f us per call beyond the network: launch, proxies, latency not in the profile (%s up to %d bytes)",
			f.US, units.Count(f.Times, "time"), f.UpTo)
	}
}

// smallOff is by which factor small calls may differ from the model: by as much as a row that is judged.
const smallOff = 1 + testslog.SlowOff + nodeSpread

// smallText compares the calls whose time is that of launches and latencies with the time of nodes.
func (r *Report) smallText() string {
	s := r.small
	if s.Times == 0 {
		return "none, as no part of the log takes the same time for several sizes"
	}
	text := fmt.Sprintf("%.1f us, %.0f %% of what nodes with %s take in the model (%s up to %d bytes)",
		units.Microseconds(s.Time), 100*s.Ratio, r.NodeTime, units.Count(s.Times, "time"), s.UpTo)
	switch {
	case s.Ratio > smallOff:
		return text + ": a slow launch or host, another version of NCCL, or a latency that the profile does not have"
	case s.Ratio*smallOff < 1:
		return text + ": another version or algorithm of NCCL, or a lower latency than the profile's"
	}
	return text
}

// bandwidthText compares the largest size that the model knows.
func (r *Report) bandwidthText() string {
	var best *JudgedTime
	for i := range r.Log {
		j := &r.Log[i]
		if j.ExpectedUS == 0 || j.TimeUS == 0 || j.Word == testslog.Wrong || j.Word == testslog.Contradictory {
			continue
		}
		if best == nil || j.Size > best.Size || j.Size == best.Size && j.TimeUS < best.TimeUS {
			best = j
		}
	}
	if best == nil {
		return "not judged: no row of the log has an expected time"
	}
	share := best.WithFixed / best.TimeUS
	text := fmt.Sprintf("%.1f GB/s busbw at %d bytes, %.0f %% of what %s on this fabric", best.BusBW, best.Size,
		100*share, best.schedule())
	switch best.Word {
	case testslog.Slower:
		return text + ": check the rate and the error counters of each link, and that every NIC is in use"
	case testslog.FasterTree:
		return text + ": NVLS or a tree"
	case testslog.Impossible:
		return text + ": traffic went around the network, or the profile is not this cluster's"
	}
	return text
}

// schedule names what the model plays, with its verb.
func (j *JudgedTime) schedule() string {
	if name := strings.TrimSpace(j.Algo + " " + j.Proto); name != "" {
		return name + " gives"
	}
	return "sends and receives give"
}

func (r *Report) rowsText() string {
	count := map[testslog.Word]int{}
	var bad []*JudgedTime
	for i := range r.Log {
		j := &r.Log[i]
		count[j.Word]++
		if !j.Word.Good() {
			bad = append(bad, j)
		}
	}
	var parts []string
	for _, w := range testslog.Words() {
		if n := count[w]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, w))
		}
	}
	text := fmt.Sprintf("%s: %s", units.Count(len(r.Log), "time"), strings.Join(parts, ", "))
	if len(bad) == 0 {
		return text + "; nothing to look at"
	}
	var lines []string
	for _, j := range bad[:min(len(bad), named)] {
		lines = append(lines, fmt.Sprintf("line %d (%d bytes %s, %s)", j.Line, j.Size, bench.Place(j.InPlace), j.Word))
	}
	text += "; look at " + strings.Join(lines, ", ")
	if more := len(bad) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + r.advice(count)
}

// advice says what to try next about the times that were counted.
func (r *Report) advice(count map[testslog.Word]int) string {
	switch {
	case count[testslog.Wrong]+count[testslog.Contradictory] > 0:
		return "; measure again before anything else: wrong or edited rows prove nothing"
	case count[testslog.Impossible] > 0:
		return "; give the profile and the nodes of the cluster that was measured"
	case count[testslog.Slower] > r.explained:
		return "; " + slowerAdvice(r.collective)
	case count[testslog.Dip] > 0 && r.collective.IsP2P():
		return "; measure it again: a dip that stays is often congestion, where several flows share a link or arrive " +
			"at one NIC"
	case count[testslog.Dip] > 0:
		return "; measure it again: a dip that stays is often a change of algorithm"
	case count[testslog.Slower] > 0:
		return "; measure from 8 bytes on: small calls show the fixed cost"
	}
	return ""
}

// slowerAdvice is what to try about slower times. NCCL_ALGO has a part only where NCCL has several algorithms.
func slowerAdvice(c nccl.Collective) string {
	switch {
	case c.IsP2P():
		return "try each pair of nodes with sendrecv, which has one flow in each direction: NCCL_ALGO has no part in " +
			"sends and receives"
	case c.Rooted():
		return "try each pair of nodes: NCCL has no other algorithm for it than rings"
	}
	return "try NCCL_ALGO=Ring, which shows the network alone, and then each pair of nodes"
}
