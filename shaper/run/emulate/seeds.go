// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/internal/expected"
)

// MaxSeeds is the most seeds of Options.Seeds.
const MaxSeeds = 1000

// SeedTimes are the expected times of one call on fabrics that differ only in their seed. It draws one of several
// equally short paths for each pair of NICs, as the hash of a switch does (ECMP), jitter and losses.
type SeedTimes struct {
	Size  int64
	First uint64          // the seed of Times[0]; the others follow it
	Times []time.Duration // means over the ranks
	bytes float64         // that pass over the bus
}

// alike is the ratio up to which two times are one outcome.
const alike = 1.02

// outcome is a time that several seeds have, within alike.
type outcome struct {
	time  time.Duration // the shortest of them
	seed  uint64        // the first seed with that time
	seeds int
}

// outcomes are the times from the shortest to the longest.
func (s *SeedTimes) outcomes() (all []outcome) {
	order := make([]int, len(s.Times))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Times[a], s.Times[b]) })
	for _, i := range order {
		if n := len(all); n > 0 && float64(s.Times[i]) <= alike*float64(all[n-1].time) {
			all[n-1].seeds++
			continue
		}
		all = append(all, outcome{s.Times[i], s.First + uint64(i), 1})
	}
	return all
}

// seedsText is how many seeds have the outcome, and one of them, to be given to --set seed.
func (o outcome) seedsText() string {
	if o.seeds == 1 {
		return fmt.Sprintf("seed %d", o.seed)
	}
	return fmt.Sprintf("%d seeds, such as %d", o.seeds, o.seed)
}

// mostOutcomes is how many outcomes the text of a call names.
const mostOutcomes = 4

// String says what the seeds give, such as "268435456 bytes with seeds 1 to 20: 5512.3 us, 48.70 GB/s (13 seeds, such
// as 1); 11004.1 us, 24.40 GB/s (7 seeds, such as 4)".
func (s *SeedTimes) String() string {
	all := s.outcomes()
	var texts []string
	for _, o := range all {
		text := fmt.Sprintf("%.2f us", units.Microseconds(o.time))
		if o.time > 0 {
			text += fmt.Sprintf(", %.2f GB/s", s.bytes/float64(o.time))
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", text, o.seedsText()))
	}
	if len(texts) > mostOutcomes {
		rest := 0
		for _, o := range all[mostOutcomes-1 : len(all)-1] {
			rest += o.seeds
		}
		between := fmt.Sprintf("between these (%s)", units.Count(rest, "seed"))
		texts = append(texts[:mostOutcomes-1:mostOutcomes-1], between, texts[len(texts)-1])
	}
	text := fmt.Sprintf("%d bytes with seeds %d to %d: %s", s.Size, s.First, s.First+uint64(len(s.Times))-1,
		strings.Join(texts, "; "))
	if worst := all[len(all)-1]; len(all) > 1 && all[0].time > 0 {
		text += fmt.Sprintf(": up to %.0f %% longer", 100*(float64(worst.time)/float64(all[0].time)-1))
	}
	return text
}

// noteSeeds notes what other seeds would give, if that was asked for.
func (o *Options) noteSeeds(ctx context.Context, v *verdict.Verdict, f *fabric.Fabric, calls []bench.Case) error {
	if o.Seeds < 2 {
		return nil
	}
	all, err := o.overSeeds(ctx, f, calls)
	for i := range all {
		v.Notes = append(v.Notes, "expected time of "+all[i].String())
	}
	return err
}

// overSeeds are the expected times of the calls on f with o.Seeds seeds, from its own on. Calls without an expected
// time are left out.
func (o *Options) overSeeds(ctx context.Context, f *fabric.Fabric, calls []bench.Case) ([]SeedTimes, error) {
	all := make([]SeedTimes, len(calls))
	for i, c := range calls {
		all[i] = SeedTimes{Size: c.Size, First: f.Config.Seed, bytes: float64(c.Size) * c.Collective.BusFactor(c.Ranks)}
	}
	for n := range o.Seeds {
		o.progress(fmt.Sprintf("seed %d of %d", n+1, o.Seeds))
		seeded, err := f.WithSeed(f.Config.Seed + uint64(n))
		if err != nil {
			return nil, err
		}
		times := expected.New(seeded, o.Node(seeded), os.Getenv)
		for i, c := range calls {
			c.Iters = o.Bench.Iters
			if e, ok := times.Of(ctx, c); ok {
				all[i].Times = append(all[i].Times, e.Time)
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return slices.DeleteFunc(all, func(s SeedTimes) bool { return len(s.Times) < o.Seeds }), nil
}
