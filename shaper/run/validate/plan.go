// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// How a table is run. With a larger time scale, the cost of an operation on this host matters less, but a long call
// cannot have the time scale of a short one. So rows whose published times are within a factor of spread run as a
// group, at the largest time scale at which there is time for goodIters, or at a larger one if this host needs it. Then
// each row has as many timed iterations as there is time for.
const (
	spread      = 8
	groupTime   = time.Minute     // intended time of a group, if no budget says less
	longestTime = 5 * time.Minute // maximum time of a group with leastIters
	leastIters  = 2
	goodIters   = 4
	mostIters   = 20
	warmup      = 1
	// bufferShare is the fraction of the available memory that the ranks' buffers may use, two per rank.
	bufferShare = 0.5
)

// groups splits the rows into groups.
func groups(rows []testslog.Row) [][]testslog.Row {
	var all [][]testslog.Row
	for _, r := range rows {
		if n := len(all); n > 0 && r.OutOfPlace.Time <= spread*all[n-1][0].OutOfPlace.Time {
			all[n-1] = append(all[n-1], r)
			continue
		}
		all = append(all, []testslog.Row{r})
	}
	return all
}

// fit removes the rows whose buffers do not fit into memory (bytes, 0 if not known).
func fit(rows []testslog.Row, ranks int, memory uint64) (kept []testslog.Row, out []tables.LeftOut) {
	for _, r := range rows {
		need := 2 * float64(ranks) * float64(r.Size)
		if have := bufferShare * float64(memory); memory > 0 && need > have {
			out = append(out, tables.LeftOut{Size: r.Size,
				Reason: fmt.Sprintf("the buffers of %d ranks take %.1f GiB, half of what is available is %.1f GiB", ranks,
					need/(1<<30), have/(1<<30))})
			continue
		}
		kept = append(kept, r)
	}
	return kept, out
}

// callTime is the time of one call of each row at time scale k.
func callTime(rows []testslog.Row, k int) time.Duration {
	sum := time.Duration(0)
	for _, r := range rows {
		sum += r.OutOfPlace.Time * time.Duration(k)
	}
	return sum
}

// times are the intended and the maximum time of a group.
type times struct{ group, longest time.Duration }

// times are what a budget allows. A part of it is for starting and ending the ranks.
func (o *Options) times() times {
	if o.Emulate.Budget.Total == 0 {
		return times{groupTime, longestTime}
	}
	share := max(time.Until(o.Emulate.Budget.End), 0)
	return times{min(groupTime, share*2/3), min(longestTime, share)}
}

// largestScale is the largest power of two, at least k and at most MaxTimeScale, at which the group has time for
// goodIters; k if there is none.
func largestScale(group []testslog.Row, k int, most time.Duration) int {
	best := k
	for c := 1; c <= link.MaxTimeScale && (warmup+goodIters)*callTime(group, c) <= most; c *= 2 {
		best = max(best, c)
	}
	return best
}

// iterations is how many a row has on a virtual clock and in the model: as many as nccl-tests measures by default where
// ranks may end early because they need not wait for all others, since the time of a row is the mean of the ranks'.
func iterations(c nccl.Collective) int {
	if c.Rooted() || c == nccl.SendRecv {
		return mostIters
	}
	return goodIters
}

// shorten removes the group's last rows until it takes at most the longest time at time scale k, and returns the
// iterations that the rest has time for.
func shorten(group []testslog.Row, k int, t times) (kept []testslog.Row, iters int, out []tables.LeftOut) {
	for len(group) > 0 && (warmup+leastIters)*callTime(group, k) > t.longest {
		last := group[len(group)-1]
		out = append(out, tables.LeftOut{Size: last.Size, Reason: fmt.Sprintf("at time scale %d one call takes %v", k,
			(last.OutOfPlace.Time * time.Duration(k)).Round(time.Second))})
		group = group[:len(group)-1]
	}
	if len(group) == 0 {
		return nil, 0, out
	}
	iters = int(t.group/callTime(group, k)) - warmup
	return group, min(max(iters, leastIters), mostIters), out
}

// message is the minimum size in bytes of the non-empty messages of a call of size bytes, if the table determines it:
// for a ring AllReduce with Simple, which cuts the share of a channel into a chunk per rank, and a chunk into two
// slices of at most 1 MiB (shaper/nccl/expect). Otherwise 0.
func message(t *tables.Table, size int64) uint32 {
	env := map[string]string{}
	for _, v := range t.Env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = strings.ToLower(value)
	}
	channels, err := strconv.Atoi(env["NCCL_MAX_NCHANNELS"])
	if err != nil || channels < 1 || env["NCCL_ALGO"] != "ring" || env["NCCL_PROTO"] != "simple" ||
		t.Collective != nccl.AllReduce {
		return 0
	}
	return uint32(min(size/int64(2*channels*t.Ranks), 1<<20))
}

// configure makes e measure the rows as they were measured for the table, with its variables.
func configure(e *emulate.Options, t *tables.Table, rows []testslog.Row, iters int) {
	b := &e.Bench
	b.Collective, b.Ranks, b.Sizes, b.Types = t.Collective, t.Ranks, tables.Sizes(rows), []nccl.DataType{t.Type}
	e.Env = slices.Concat(e.Env, t.StandIn(), t.Env)
	b.Iters, b.Warmup, b.Cycles, b.Check, b.OutOfPlace = iters, warmup, 1, true, true
}
