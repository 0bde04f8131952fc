// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

const (
	// rangeSizes and otherSizes are how many sizes of the slow ranges, and of the others, are calculated with each
	// alternative.
	rangeSizes, otherSizes = 3, 2
	// searchTime is how long alternatives are calculated; those that are left after it are not tried.
	searchTime = 3 * time.Minute
	// leastExplains is what a cause must explain to be named, and namedCauses how many are. Of causes that explain as
	// much, give or take alikeCauses, the first of the alternatives comes first. Where the largest sizes are slow, what
	// changes all sizes may explain less by atEnd: NCCL seldom chooses wrong for them.
	leastExplains = 0.4
	namedCauses   = 3
	alikeCauses   = 0.1
	atEnd         = 0.15
)

// alternative is something that may be otherwise on the real cluster.
type alternative struct {
	text   string
	env    []string
	change func(*configs.Fabric)
	// someSizes says that NCCL may choose it for some sizes alone. What is not so has to agree with all sizes.
	someSizes bool
}

// alternatives are those that make sense for calls of a collective on a fabric.
func alternatives(c nccl.Collective, f *configs.Fabric, nodes int) (all []alternative) {
	if nodes > 1 {
		all = append(all, netAlternatives(f)...)
	}
	if !c.IsP2P() {
		for _, proto := range []string{"LL", "LL128", "Simple"} {
			all = append(all, alternative{text: "protocol " + proto + " (NCCL_PROTO, a tuner)",
				env: []string{"NCCL_PROTO=" + proto}, someSizes: true})
		}
	}
	if c == nccl.AllReduce {
		for _, algo := range []string{"Ring", "Tree", "NVLS", "NVLSTree"} {
			all = append(all, alternative{text: "algorithm " + algo + " (NCCL_ALGO, a tuner)",
				env: []string{"NCCL_ALGO=" + algo}, someSizes: true})
		}
	}
	for _, n := range []int{1, 2, 4} {
		all = append(all, alternative{text: fmt.Sprintf("%s (NCCL_MAX_NCHANNELS)", units.Count(n, "channel")),
			env: []string{fmt.Sprintf("NCCL_MAX_NCHANNELS=%d", n), fmt.Sprintf("NCCL_MAX_P2P_NCHANNELS=%d", n)}})
	}
	if f.GPUsPerNode > 1 {
		all = append(all, alternative{text: "PCIe instead of NVLink (nvidia-smi topo -m, NCCL_P2P_LEVEL)",
			change: func(f *configs.Fabric) { f.NVLink = configs.NoNVLink }})
	}
	return all
}

// netAlternatives are alternatives of the links between nodes.
func netAlternatives(f *configs.Fabric) (all []alternative) {
	for _, part := range []units.Bandwidth{2, 4} {
		rate := f.Link.Bandwidth / part
		all = append(all, alternative{
			text:   fmt.Sprintf("a NIC or port at %v instead of %v (width, PCI slot, a shared link)", rate, f.Link.Bandwidth),
			change: func(f *configs.Fabric) { f.Shape(configs.LinkPatch{Bandwidth: &rate}) }})
	}
	has := f.NICsPerNode
	fewer := slices.Compact([]int{has - 1, has / 2, has / 4})
	for _, n := range slices.DeleteFunc(fewer, func(n int) bool { return n < 1 }) {
		all = append(all, alternative{
			text:   fmt.Sprintf("%d of %s in use (NCCL_IB_HCA, ports that are down)", n, units.Count(has, "NIC")),
			change: func(f *configs.Fabric) { f.NICsPerNode = n }})
	}
	if f.Transport.Kind != configs.TCP {
		all = append(all, alternative{text: "TCP sockets instead of RDMA (NET/Socket, NCCL_IB_DISABLE)",
			change: func(f *configs.Fabric) { f.Transport = configs.DefaultTransport(configs.TCP) }})
	}
	return append(all, alternative{text: "no GPUDirect RDMA (nvidia_peermem, NCCL_NET_GDR_LEVEL)",
		env: []string{"NCCL_NET_GDR_LEVEL=LOC"}})
}

// Model calculates calls, as [emulate.Expect] does.
type Model func(context.Context, emulate.Options) ([]emulate.Forecast, bench.Info, error)

// RankCauses calculates the slower sizes of a log with what may be otherwise on its cluster, and names in r what
// explains their times best. o is what the log is judged on. A note counts the alternatives that are not calculated.
func (r *Report) RankCauses(ctx context.Context, o emulate.Options, model Model) {
	if !slices.ContainsFunc(r.Slow, func(s SlowRange) bool { return s.Word != testslog.Stall }) {
		return
	}
	o.Bench.Sizes = r.sizesOfCauses()
	all := alternatives(r.collective, &o.Config, r.Nodes)
	if !r.slowAtEnd() {
		all = slices.DeleteFunc(all, func(a alternative) bool { return !a.someSizes })
	}
	possible := len(all)
	if o.Shared != "" { // its links are as they were shaped, which no other fabric has
		all = slices.DeleteFunc(all, func(a alternative) bool { return a.change != nil })
	}
	times := timesOf(ctx, o, all, model)
	for i := range r.Slow {
		if s := &r.Slow[i]; s.Word != testslog.Stall {
			s.Causes = r.causesOf(s, all, times)
		}
	}
	r.noteCauses(possible, len(all), times)
}

// timesOf calculates the alternatives one after the other. Those that are refused have no times, and those for which
// there is no time are missing.
func timesOf(ctx context.Context, o emulate.Options, all []alternative, model Model) (times []map[int64]float64) {
	ctx, stop := context.WithTimeout(ctx, searchTime)
	defer stop()
	for i := range all {
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("likely causes, %d of %d: %s", i+1, len(all), all[i].text), -1)
		}
		of := timesWith(ctx, o, &all[i], model)
		if ctx.Err() != nil {
			break
		}
		times = append(times, of)
	}
	return times
}

// noteCauses counts the alternatives that were not calculated. With a fabric that is up only some are possible.
func (r *Report) noteCauses(all, possible int, times []map[int64]float64) {
	refused := 0
	for _, t := range times {
		if t == nil {
			refused++
		}
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{refused, "refused by NCCL or by the fabric"},
		{possible - len(times), fmt.Sprintf("not tried within %v", searchTime)},
		{all - possible, "other NICs, rates and transports, which --fabric leaves out: name the cluster with --profile or -F"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if parts != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("likely causes: %d of %d alternatives calculated; %s", len(times)-refused,
			all, strings.Join(parts, "; ")))
	}
}

// slowAtEnd says whether the largest size of the log is slow. If it is not, the links carry what they should: only what
// NCCL chooses for some sizes can be otherwise.
func (r *Report) slowAtEnd() bool {
	_, largest := r.ends()
	return slices.ContainsFunc(r.Slow, func(s SlowRange) bool { return s.has(largest) })
}

// ends are the smallest and the largest size of the log.
func (r *Report) ends() (smallest, largest int64) {
	smallest = math.MaxInt64
	for i := range r.Log {
		smallest, largest = min(smallest, r.Log[i].Size), max(largest, r.Log[i].Size)
	}
	return smallest, largest
}

// sizesOfCauses are some sizes of the slow ranges and some of the others.
func (r *Report) sizesOfCauses() []int64 {
	var slow, others []int64
	for i := range r.Rows {
		row := &r.Rows[i]
		isSlow := slices.ContainsFunc(r.Slow, func(s SlowRange) bool { return s.has(row.Size) })
		switch {
		case row.ExpectedUS == nil:
		case isSlow:
			slow = append(slow, row.Size)
		default:
			others = append(others, row.Size)
		}
	}
	sizes := slices.Concat(some(slow, rangeSizes), some(others, otherSizes))
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// some are at most n of the sizes, among them the first and the last.
func some(sizes []int64, n int) (chosen []int64) {
	if len(sizes) <= n {
		return sizes
	}
	for i := range n {
		chosen = append(chosen, sizes[i*(len(sizes)-1)/(n-1)])
	}
	return chosen
}

// timesWith are the times in microseconds with an alternative, by size; nil if it is refused.
func timesWith(ctx context.Context, o emulate.Options, a *alternative, model Model) map[int64]float64 {
	o.Env = slices.Concat(o.Env, a.env)
	if a.change != nil {
		a.change(&o.Config)
		if o.Config.Validate() != nil {
			return nil
		}
	}
	o.Progress = nil
	rows, _, err := model(ctx, o)
	if err != nil {
		return nil
	}
	times := map[int64]float64{}
	for _, f := range rows {
		if f.Known {
			times[f.Case.Size] = units.Microseconds(f.Time)
		}
	}
	return times
}

// causesOf ranks the alternatives by how well each explains a range.
func (r *Report) causesOf(s *SlowRange, all []alternative, times []map[int64]float64) []Cause {
	measured := r.measuredOver()
	_, largest := r.ends()
	causes := r.addedTime(s, measured)
	for i := range times {
		a := &all[i]
		c := Cause{Text: a.text, Explains: r.explains(s, measured, a.someSizes, func(row *ReportRow) float64 {
			return times[i][row.Size]
		})}
		if !a.someSizes && s.has(largest) {
			c.favour = atEnd
		}
		causes = append(causes, c)
	}
	causes = slices.DeleteFunc(causes, func(c Cause) bool { return !(c.Explains >= leastExplains) })
	rank := func(c *Cause) float64 { return math.Round((c.Explains + c.favour) / alikeCauses) }
	slices.SortStableFunc(causes, func(a, b Cause) int { return cmp.Compare(rank(&b), rank(&a)) })
	return causes[:min(len(causes), namedCauses)]
}

// addedTime is the cause of times that exceed the expected ones by about as many microseconds: in all calls, or in the
// smallest ones, whose time is the launch and latencies.
func (r *Report) addedTime(s *SlowRange, measured map[int64]float64) []Cause {
	var beyond []float64
	for i := range r.Rows {
		row := &r.Rows[i]
		if got := measured[row.Size]; got > 0 && row.ExpectedUS != nil && s.has(row.Size) {
			beyond = append(beyond, (got-1)**row.ExpectedUS)
		}
	}
	slices.Sort(beyond)
	if len(beyond) < 2 || beyond[0] <= 0 {
		return nil
	}
	added := beyond[len(beyond)/2]
	smallest, _ := r.ends()
	return []Cause{{Text: fmt.Sprintf("%s us more in each call: a higher latency, the launch or the host", twoDigits(added)),
		Explains: r.explains(s, measured, s.has(smallest), func(row *ReportRow) float64 { return *row.ExpectedUS + added })}}
}

// explains is which share of a range's deviations is gone with other times in microseconds, 0 for unknown ones. They
// are the times of the range alone, or of all sizes but other slow ranges.
func (r *Report) explains(s *SlowRange, measured map[int64]float64, alone bool, us func(*ReportRow) float64) float64 {
	var without, with float64
	for i := range r.Rows {
		row := &r.Rows[i]
		got := measured[row.Size]
		if got == 0 || row.ExpectedUS == nil || r.otherRange(s, row.Size) {
			continue
		}
		other := us(row)
		if other == 0 {
			continue
		}
		off := math.Log(got)
		without += off * off
		if !alone || s.has(row.Size) {
			off += math.Log(*row.ExpectedUS / other)
		}
		with += off * off
	}
	if without == 0 {
		return 0
	}
	return 1 - math.Sqrt(with/without)
}

// measuredOver is the log's time of each size over the expected one: the geometric mean of its times.
func (r *Report) measuredOver() map[int64]float64 {
	sum, n := map[int64]float64{}, map[int64]float64{}
	for i := range r.Log {
		if j := &r.Log[i]; j.ExpectedUS > 0 && j.TimeUS > 0 {
			sum[j.Size] += math.Log(j.TimeUS / j.ExpectedUS)
			n[j.Size]++
		}
	}
	for size := range sum {
		sum[size] = math.Exp(sum[size] / n[size])
	}
	return sum
}

// otherRange says whether another range than s has the size: the slow times there have another cause.
func (r *Report) otherRange(s *SlowRange, size int64) bool {
	return !s.has(size) && slices.ContainsFunc(r.Slow, func(o SlowRange) bool { return o.has(size) })
}
