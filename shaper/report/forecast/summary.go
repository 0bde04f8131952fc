// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
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
	all := []string{first, "bandwidth: " + r.bandwidthText(), "rows: " + r.rowsText()}
	return all
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

// smallText compares the calls whose time is launches and latencies with the time of nodes.
func (r *Report) smallText() string {
	s := r.small
	if s.Times == 0 {
		return "none, as no part of the log takes the same time for several sizes"
	}
	low, high := r.smallInterval()
	model := units.Microseconds(s.Time) / s.Ratio
	text := fmt.Sprintf("%.1f us; nodes with %s take %s us (%s up to %d bytes)", units.Microseconds(s.Time), r.NodeTime,
		span(low*model, high*model), units.Count(s.Times, "time"), s.UpTo)
	switch {
	case s.Ratio > high:
		return text + ": a slow launch or host, another version of NCCL, or a latency that the profile does not have"
	case s.Ratio < low:
		return text + ": another version or algorithm of NCCL, or a lower latency than the profile's"
	}
	return text
}

// smallInterval is the interval of the smallest row, relative to the model.
func (r *Report) smallInterval() (low, high float64) {
	low, high = 1/(1+testslog.SlowOff), 1+testslog.SlowOff
	size := int64(math.MaxInt64)
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Interval != nil && row.Size < size {
			size, low, high = row.Size, row.Interval.Low, row.Interval.High
		}
	}
	return low, high
}

// tablesBehind says by which tables the times of a size have an interval, "" if they have none.
func (r *Report) tablesBehind(size int64) string {
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Size == size && row.Interval != nil {
			return " (by " + row.Interval.Text() + ")"
		}
	}
	return ""
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
	if best.HighUS > 0 {
		perUS := best.BusBW * best.TimeUS
		text = fmt.Sprintf("%.1f GB/s busbw at %d bytes; %s on this fabric %s GB/s%s", best.BusBW, best.Size,
			best.schedule(), span(perUS/best.HighUS, perUS/best.LowUS), r.tablesBehind(best.Size))
	}
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

// Expected is the interval in microseconds in which healthy clusters are, "-" if nothing is expected.
func (j *JudgedTime) Expected() string {
	if j.HighUS == 0 {
		return "-"
	}
	return span(j.LowUS, j.HighUS)
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
	bad = slices.DeleteFunc(bad, func(j *JudgedTime) bool { return r.inRange(j) })
	if len(bad) == 0 {
		return text + r.advice(count)
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

// inRange says whether a range of slow sizes has a time.
func (r *Report) inRange(j *JudgedTime) bool {
	slow := j.Word == testslog.Slower || j.Word == testslog.Stall || j.Word == testslog.Dip
	return slow && slices.ContainsFunc(r.Slow, func(s SlowRange) bool { return s.has(j.Size) })
}

// advice says what to try next about the times that were counted.
func (r *Report) advice(count map[testslog.Word]int) string {
	switch {
	case count[testslog.Wrong]+count[testslog.Contradictory] > 0:
		return "; measure again before anything else: wrong or edited rows prove nothing"
	case count[testslog.Impossible] > 0:
		return "; give the profile and the nodes of the cluster that was measured"
	case count[testslog.Slower] > r.explained:
		return "; " + r.slowerAdvice(r.collective)
	case count[testslog.Stall] > 0:
		return "; look for retransmissions (the counters of NICs and switches), and what else runs on the hosts"
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

// slowByRings says whether NCCL takes rings for all slower times.
func (r *Report) slowByRings() bool {
	rings := 0
	for i := range r.Log {
		switch j := &r.Log[i]; {
		case j.Word != testslog.Slower:
		case j.Algo != nccllog.AlgoRing:
			return false
		default:
			rings++
		}
	}
	return rings > 0
}

// slowerAdvice is what to try about slower times. NCCL_ALGO has a part only where NCCL has several algorithms.
func (r *Report) slowerAdvice(c nccl.Collective) string {
	switch {
	case r.slowByRings():
		return "try each pair of nodes: the times that are slower are from rings already"
	case c.IsP2P():
		return "try each pair of nodes with sendrecv, which has one flow in each direction: NCCL_ALGO has no part in " +
			"sends and receives"
	case c.Rooted():
		return "try each pair of nodes: NCCL has no other algorithm for it than rings"
	}
	return "try NCCL_ALGO=Ring, which shows the network alone, and then each pair of nodes"
}
