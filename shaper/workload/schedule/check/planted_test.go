// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/msccl"
)

// at is a step of a schedule.
type at struct{ gpu, block, step int }

func (a at) in(s *schedule.Schedule) *schedule.Step {
	return &s.GPUs[a.gpu].Blocks[a.block].Steps[a.step]
}

// pick is a random step for which ok holds.
func pick(s *schedule.Schedule, rng *rand.Rand, ok func(a at, st *schedule.Step) bool) (at, bool) {
	var all []at
	for g := range s.GPUs {
		for b := range s.GPUs[g].Blocks {
			for k := range s.GPUs[g].Blocks[b].Steps {
				if a := (at{g, b, k}); ok(a, a.in(s)) {
					all = append(all, a)
				}
			}
		}
	}
	if len(all) == 0 {
		return at{}, false
	}
	return all[rng.IntN(len(all))], true
}

// mutations plant a mistake. They report false if the schedule has no place for it.
var mutations = map[string]func(s *schedule.Schedule, rng *rand.Rand) bool{
	"wrong offset": func(s *schedule.Schedule, rng *rand.Rand) bool {
		a, ok := pick(s, rng, func(_ at, st *schedule.Step) bool {
			return st.Kind.WritesTarget() ||
				st.Kind.ReadsSource()
		})
		if !ok {
			return false
		}
		st := a.in(s)
		ref := &st.Dst
		if !st.Kind.WritesTarget() || st.Kind.ReadsSource() && rng.IntN(2) == 0 {
			ref = &st.Src
		}
		if ref.Offset++; rng.IntN(2) == 0 && ref.Offset > 1 {
			ref.Offset -= 2
		}
		return true
	},
	"missing dependency": func(s *schedule.Schedule, rng *rand.Rand) bool {
		a, ok := pick(s, rng, func(_ at, st *schedule.Step) bool { return st.DepBlock >= 0 })
		if ok {
			a.in(s).DepBlock, a.in(s).DepStep = schedule.None, schedule.None
		}
		return ok
	},
	"crossed waits": func(s *schedule.Schedule, rng *rand.Rand) bool {
		a, ok := pick(s, rng, func(a at, _ *schedule.Step) bool { return a.step == 0 && len(s.GPUs[a.gpu].Blocks) > 1 })
		if !ok {
			return false
		}
		blocks := s.GPUs[a.gpu].Blocks
		b := (a.block + 1) % len(blocks)
		one, two := &blocks[a.block], &blocks[b]
		one.Steps[0].DepBlock, one.Steps[0].DepStep = b, len(two.Steps)-1
		two.Steps[0].DepBlock, two.Steps[0].DepStep = a.block, len(one.Steps)-1
		one.Steps[len(one.Steps)-1].HasDep, two.Steps[len(two.Steps)-1].HasDep = true, true
		return true
	},
	"count off by one": func(s *schedule.Schedule, rng *rand.Rand) bool {
		a, ok := pick(s, rng, func(_ at, st *schedule.Step) bool { return st.Kind.Sends() != st.Kind.Receives() })
		if ok {
			a.in(s).Count++
		}
		return ok
	},
	"swapped steps": func(s *schedule.Schedule, rng *rand.Rand) bool {
		a, ok := pick(s, rng, func(a at, _ *schedule.Step) bool { return a.step > 0 })
		if ok {
			steps := s.GPUs[a.gpu].Blocks[a.block].Steps
			steps[a.step], steps[a.step-1] = steps[a.step-1], steps[a.step]
		}
		return ok
	},
	"both counts": func(s *schedule.Schedule, rng *rand.Rand) bool { // both ends move a chunk more
		a, ok := pick(s, rng, func(_ at, st *schedule.Step) bool { return st.Kind == schedule.SendStep })
		if !ok {
			return false
		}
		from := &s.GPUs[a.gpu].Blocks[a.block]
		message := 0
		for _, st := range from.Steps[:a.step] {
			if st.Kind.Sends() {
				message++
			}
		}
		for i := range s.GPUs[from.Send].Blocks {
			to := &s.GPUs[from.Send].Blocks[i]
			if to.Recv != a.gpu || to.Channel != from.Channel {
				continue
			}
			for k := range to.Steps {
				if to.Steps[k].Kind.Receives() {
					if message == 0 {
						a.in(s).Count++
						to.Steps[k].Count++
						return to.Steps[k].Kind == schedule.RecvStep
					}
					message--
				}
			}
		}
		return false
	},
	"another kind": func(s *schedule.Schedule, rng *rand.Rand) bool {
		others := map[schedule.Kind]schedule.Kind{
			schedule.RecvReduceCopy: schedule.RecvStep, schedule.RecvReduceCopySend: schedule.RecvCopySend,
			schedule.RecvReduceSend: schedule.RecvCopySend, schedule.RecvStep: schedule.RecvReduceCopy,
			schedule.CopyStep: schedule.ReduceStep,
		}
		a, ok := pick(s, rng, func(_ at, st *schedule.Step) bool { _, ok := others[st.Kind]; return ok })
		if ok {
			a.in(s).Kind = others[a.in(s).Kind]
		}
		return ok
	},
	"another buffer": func(s *schedule.Schedule, rng *rand.Rand) bool {
		a, ok := pick(s, rng, func(_ at, st *schedule.Step) bool {
			return st.Kind.WritesTarget() ||
				st.Kind.ReadsSource()
		})
		if !ok {
			return false
		}
		ref := &a.in(s).Src
		if !a.in(s).Kind.ReadsSource() || a.in(s).Kind.WritesTarget() && rng.IntN(2) == 0 {
			ref = &a.in(s).Dst
		}
		ref.Buffer = (ref.Buffer + 1 + schedule.Buffer(rng.IntN(2))) % schedule.Buffers
		return true
	},
	"another wait": func(s *schedule.Schedule, rng *rand.Rand) bool {
		a, ok := pick(s, rng, func(_ at, st *schedule.Step) bool { return st.DepBlock >= 0 })
		if !ok {
			return false
		}
		st := a.in(s)
		st.DepBlock = rng.IntN(len(s.GPUs[a.gpu].Blocks))
		st.DepStep = rng.IntN(len(s.GPUs[a.gpu].Blocks[st.DepBlock].Steps))
		return true
	},
	"missing step": func(s *schedule.Schedule, rng *rand.Rand) bool { // the waits for steps behind it become wrong too
		a, ok := pick(s, rng, func(at, *schedule.Step) bool { return true })
		if ok {
			b := &s.GPUs[a.gpu].Blocks[a.block]
			b.Steps = slices.Delete(b.Steps, a.step, a.step+1)
		}
		return ok
	},
	"no flag": func(s *schedule.Schedule, rng *rand.Rand) bool {
		a, ok := pick(s, rng, func(_ at, st *schedule.Step) bool { return st.HasDep })
		if ok {
			a.in(s).HasDep = false
		}
		return ok
	},
}

// A planted mistake is found, or the second opinion finds the schedule good in many orders: then the mistake is
// harmless. The other way round, what is called bad is bad in the second opinion too.
func TestPlantedMistakes(t *testing.T) {
	for name, plant := range mutations {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, uint64(len(name))))
			var n planted
			for range 150 {
				s := random(t, rng)
				if !plant(s, rng) {
					continue
				}
				n.judge(t, s, rng)
			}
			t.Logf("%d found, %d harmless", n.found, n.harmless)
			// Harmless are: a wait for what messages order anyway, steps on different chunks that are swapped, an
			// offset of a chunk that is already what it should be. Crossed waits and counts never are.
			if n.found == 0 || n.harmless > 0 && (name == "crossed waits" || name == "count off by one") {
				t.Errorf("%d found, %d harmless", n.found, n.harmless)
			}
		})
	}
}

// planted counts planted mistakes.
type planted struct{ found, harmless int }

// judge compares what the check says of a schedule with a planted mistake with the second opinion, and counts it.
func (n *planted) judge(t *testing.T, s *schedule.Schedule, rng *rand.Rand) {
	t.Helper()
	r := mustCheck(t, s)
	if r.Good() {
		if text := wrong(s, rng, 30); text != "" {
			t.Errorf("%s on %d GPUs: called good, but %s", s.Name, len(s.GPUs), text)
		}
		n.harmless++
		return
	}
	n.found++
	// Some orders are rare, and there is no time for many of a large schedule. A result that the name does not define
	// is never wrong.
	const some, most, steps = 5, 3000, 600_000
	orders := some
	if r.Findings[0].Kind == check.Unordered {
		orders = max(some, min(most, steps/s.Steps()))
	}
	if f := r.Findings[0]; f.Kind != check.Dependency && s.Coll.HasResult() && wrong(s, rng, orders) == "" {
		report := t.Errorf
		if f.Kind == check.Unordered && orders < most {
			report = t.Logf
		}
		report("%s on %d GPUs: called bad, and not seen in %d orders: %+v", s.Name, len(s.GPUs), orders, f)
	}
}

// filesEnv names a folder of MSCCL XML files, which TestPlantedInFiles plants mistakes in.
const filesEnv = "DDLEMU_TEST_SCHEDULES"

// The same with the good ones of given files.
func TestPlantedInFiles(t *testing.T) {
	folder := os.Getenv(filesEnv)
	if folder == "" {
		t.Skip(filesEnv + " names no folder of XML files")
	}
	names, err := filepath.Glob(filepath.Join(folder, "*.xml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %d files", folder, err, len(names))
	}
	kinds := slices.Sorted(maps.Keys(mutations))
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, uint64(len(name))))
			var n planted
			for _, kind := range kinds {
				s := readFile(t, name)
				if s.Steps() > 2000 || kind == kinds[0] && !mustCheck(t, s).Good() {
					t.Skip("too large for the second opinion, or not good")
				}
				if !mutations[kind](s, rng) {
					continue
				}
				n.judge(t, s, rng)
			}
			t.Logf("%d found, %d harmless", n.found, n.harmless)
		})
	}
}

func readFile(t *testing.T, name string) *schedule.Schedule {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := msccl.Read(f, name, "")
	if err != nil {
		t.Skip(err)
	}
	return s
}
