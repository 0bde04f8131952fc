// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

// startLead is the time until the common start of a timed run: enough for every rank to read its command, even if its
// core is busy with something else for a time slice.
const startLead = 10 * time.Millisecond

// Result is the outcome of a run.
type Result struct {
	Info    Info
	Rows    []Row
	Virtual bool // times are those of a virtual clock
	// Transports counts the connections by transport, such as "NET/goemu" or "P2P/IPC"; empty if NCCL's log was not
	// read.
	Transports map[string]int
}

// Wrong is the number of wrong elements in all rows.
func (r Result) Wrong() int64 {
	var wrong int64
	for _, row := range r.Rows {
		for _, m := range row.Measurements() {
			wrong += m.Wrong
		}
	}
	return wrong
}

// AvgBusBW is the average bus bandwidth of all measurements in GB/s, which nccl-tests prints last.
func (r Result) AvgBusBW() float64 {
	var sum float64
	var n int
	for _, row := range r.Rows {
		for _, m := range row.Measurements() {
			sum += m.BusBW
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// Run measures everything in cfg, in nccl-tests' order (types, operators, cycles, sizes), and calls onRow, if not nil,
// after each row. On an error the Result has the rows so far. If a rank fails, the error is a [*RanksError]; if ctx is
// cancelled, it is the cause. All ranks have ended when Run returns.
func Run(ctx context.Context, cfg Config, onRow func(Row)) (Result, error) {
	var result Result
	cfg.planner().Step(units.Count(cfg.Ranks, "rank") + " start")
	ranks, err := StartRanks(ctx, cfg)
	if err != nil {
		return result, err
	}
	err = ranks.measureAll(ctx, &result, onRow)
	return result, cmp.Or(err, ranks.Close())
}

func (r *Ranks) measureAll(ctx context.Context, result *Result, onRow func(Row)) error {
	r.cfg.planner().Step(units.Count(r.cfg.Ranks, "rank") + " connect (ncclCommInitRank)")
	if err := r.Init(ctx); err != nil {
		return err
	}
	result.Info = r.Info()
	if r.cfg.OnStart != nil {
		r.cfg.OnStart(result.Info)
	}
	cases := r.cfg.Cases()
	if err := r.reserve(ctx, cases); err != nil {
		return err
	}
	if err := r.measureRows(ctx, cases, result, onRow); err != nil {
		return err
	}
	result.Transports = r.Transports()
	r.cfg.planner().Step(units.Count(r.cfg.Ranks, "rank") + " end")
	return r.Destroy(ctx)
}

func (r *Ranks) measureRows(ctx context.Context, cases []Case, result *Result, onRow func(Row)) error {
	rows := newFinisher(&r.cfg, result, onRow)
	defer rows.wait()
	for i := range cases {
		c, ok := r.cfg.planner().Next(cases[i:])
		if !ok {
			continue
		}
		c.NCCL, c.Topology = result.Info.NCCL, result.Info.Topology
		row, err := r.row(ctx, c, int64(i))
		if err != nil {
			return err
		}
		rows.add(row)
	}
	return nil
}

// Cases lists the measurements, out of place, in order.
func (c *Config) Cases() []Case {
	types, ops := c.Types, c.Ops
	if len(types) == 0 {
		types = []nccl.DataType{nccl.Float}
	}
	if len(ops) == 0 || !c.Collective.Reduces() {
		ops = []nccl.RedOp{nccl.Sum}
	}
	var cases []Case
	for _, t := range types {
		for _, op := range ops {
			var rows []Case
			for _, size := range c.Sizes {
				counts := c.Collective.Counts(size, t, c.Ranks)
				rows = append(rows, Case{
					Collective: c.Collective, Type: t, Op: op, Root: c.Root, Ranks: c.Ranks, Warmup: max(c.Warmup, 1),
					Iters: c.Iters,
					Size:  counts.Bytes(t), Count: counts.Param,
				})
			}
			cases = append(cases, slices.Repeat(rows, max(c.Cycles, 1))...)
		}
	}
	return cases
}

// reserve allocates each rank's buffers once, large enough for all cases.
func (r *Ranks) reserve(ctx context.Context, cases []Case) error {
	var most int64
	for _, c := range cases {
		most = max(most, c.Size)
	}
	_, err := r.step(ctx, "reserve", all(fmt.Sprintf("reserve bytes=%d", most)))
	return err
}

// row measures both halves of a row.
func (r *Ranks) row(ctx context.Context, c Case, seed int64) (Row, error) {
	row := Row{Size: c.Size, Count: c.Count, Type: c.Type, Op: "none", Root: -1}
	if c.Collective.Reduces() {
		row.Op = c.Op.String()
	}
	if c.Collective.Rooted() {
		row.Root = c.Root
	}
	half, err := r.Measure(ctx, c, 4*seed)
	if err != nil {
		return row, err
	}
	row.OutOfPlace = half
	if !c.Collective.HasInPlace() || r.cfg.OutOfPlace {
		return row, nil
	}
	c.InPlace, c.Try, c.Warmup, c.Iters = true, false, half.Case.Warmup, half.Case.Iters
	half, err = r.Measure(ctx, c, 4*seed+2)
	row.InPlace = &half
	return row, err
}

// Measure makes one measurement on the communicator of Init: untimed iterations, timed iterations back to back from a
// common start, and the check. Input data is made from seed and seed+1; seed must be at least 0.
//
// If every iteration gives the same result, the output is overwritten before the timed iterations, and the check reads
// their result. An in-place reduction uses its output as input, so there the first untimed iteration is checked.
func (r *Ranks) Measure(ctx context.Context, c Case, seed int64) (Measurement, error) {
	half := Measurement{InPlace: c.InPlace, Checked: r.cfg.Check}
	begin := time.Now()
	once := c.InPlace && c.Collective.Reduces()
	err := r.do(ctx, "prepare", "prepare "+c.words())
	if err != nil {
		return half, err
	}
	done, pace := 0, Pace{}
	if err := r.fill(ctx, seed); err != nil {
		return half, err
	}
	if once && r.cfg.Check {
		first := time.Now()
		if err := r.do(ctx, "run", "run iters=1 start=0"); err != nil {
			return half, err
		}
		done, pace.Untimed = 1, time.Since(first)
		if err := r.check(ctx, &half); err != nil {
			return half, err
		}
	}
	untimed := time.Now()
	if c, err = r.warmUp(ctx, c, done); err != nil {
		return half, err
	}
	pace.Untimed += time.Since(untimed)
	if !once && r.cfg.Check {
		if err := r.fill(ctx, seed+1); err != nil {
			return half, err
		}
	}
	r.cfg.planner().Timed(c)
	timed := time.Now()
	if err := r.timed(ctx, c, &half); err != nil {
		return half, err
	}
	pace.Timed = time.Since(timed)
	if !once && r.cfg.Check {
		if err := r.check(ctx, &half); err != nil {
			return half, err
		}
	}
	pace.Half = time.Since(begin)
	r.cfg.planner().Measured(half.Case, pace)
	return half, nil
}

// words are the call in the protocol with a rank.
func (c *Case) words() string {
	return fmt.Sprintf("coll=%v type=%v op=%v root=%d count=%d inplace=%d", c.Collective, c.Type, c.Op, c.Root, c.Count,
		map[bool]int{true: 1}[c.InPlace])
}

// do is a step whose answers are not used.
func (r *Ranks) do(ctx context.Context, name, command string) error {
	_, err := r.step(ctx, name, all(command))
	return err
}

func (r *Ranks) fill(ctx context.Context, seed int64) error {
	return r.do(ctx, "fill", fmt.Sprintf("fill seed=%d", seed))
}

// timed runs the timed iterations and sets the half's times, bandwidths and decision.
func (r *Ranks) timed(ctx context.Context, c Case, half *Measurement) error {
	if err := r.pollLogs(); err != nil {
		return err
	}
	r.logs[0].TakeDecisions() // those of untimed iterations
	answers, err := r.runTogether(ctx, c.Iters)
	if err != nil {
		return err
	}
	if err := r.times(answers, c, half); err != nil {
		return err
	}
	half.bandwidths(c)
	if err := r.pollLogs(); err != nil {
		return err
	}
	half.decided(mostFrequent(r.logs[0].TakeDecisions()))
	c.Decision, c.NICs = half.Decision, nccllog.NICsOf(r.comms())
	half.Case = c
	return nil
}

// runTogether runs the timed iterations from a common start.
func (r *Ranks) runTogether(ctx context.Context, iters int) ([]message, error) {
	start := r.commonStart()
	r.updates = true
	defer func() { r.updates = false }()
	return r.step(ctx, "run", all(fmt.Sprintf("run iters=%d start=%d", iters, start)))
}

// times averages the ranks' times as nccl-tests does.
func (r *Ranks) times(answers []message, c Case, half *Measurement) error {
	scale := cmp.Or(r.cfg.TimeScale, 1)
	one := func(total float64) time.Duration { return time.Duration(total / float64(c.Iters) / scale) }
	var wallSum, deviceSum float64
	for rank, m := range answers {
		wall, err := m.number("wall_ns")
		if err != nil {
			return err
		}
		device, err := m.number("device_ns")
		if err != nil {
			return err
		}
		wallSum, deviceSum = wallSum+float64(wall), deviceSum+float64(device)
		t := one(float64(wall))
		if r.cfg.Clock == DeviceClock {
			t = one(float64(device))
		}
		if rank == 0 {
			half.TimeMin = t
		}
		half.TimeMin, half.TimeMax = min(half.TimeMin, t), max(half.TimeMax, t)
	}
	n := float64(len(answers))
	half.Wall, half.Device = one(wallSum/n), one(deviceSum/n)
	half.Time = half.Wall
	if r.cfg.Clock == DeviceClock {
		half.Time = half.Device
	}
	return nil
}

// check compares every element on every rank with its correct value.
func (r *Ranks) check(ctx context.Context, half *Measurement) error {
	answers, err := r.step(ctx, "check", all("check"))
	if err != nil {
		return err
	}
	for rank, m := range answers {
		wrong, err := m.number("wrong")
		if err != nil {
			return err
		}
		if wrong > 0 && half.Wrong == 0 {
			half.Mismatch = fmt.Sprintf("rank %d has %s at element %s where %s must be", rank, m.fields["got"],
				m.fields["first"], m.fields["want"])
		}
		half.Wrong += wrong
	}
	return nil
}
