// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// turn is one scenario or failure on one system.
type turn struct {
	name string
	run  func(t *testing.T, seed uint64)
}

// turns are all scenarios and failures, on all systems they are for.
func turns() []turn {
	var all []turn
	for _, on := range systems() {
		for _, s := range scenarios() {
			if (s.only == "" || s.only == on.nccl) && (s.clock == "" || s.clock == on.clock) {
				all = append(all,
					turn{on.String() + "/" + s.name, func(t *testing.T, seed uint64) { s.run(t, on, s.args, seed) }})
			}
		}
		for _, f := range failures {
			if f.clock != "" && f.clock != on.clock {
				continue
			}
			all = append(all, turn{on.String() + "/" + f.name, func(t *testing.T, seed uint64) { f.run(t, on, seed) }})
		}
	}
	return all
}

// number reads a variable that `make soak` sets.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestSoak is `make soak`: all turns in random order, again and again until the time is over.
// The same seed gives the same order and the same random choices.
func TestSoak(t *testing.T) {
	seconds := number(t, "SOAK_SECONDS", 0)
	if seconds == 0 {
		t.Skip("runs only with a time: `make soak SECONDS=600`")
	}
	seed := number(t, "SOAK_SEED", uint64(time.Now().UnixNano())%1e6)
	t.Logf("SECONDS=%d SEED=%d", seconds, seed)
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	random, all := rand.New(rand.NewPCG(seed, 0)), turns()
	seen, done := map[string]bool{}, 0
	for time.Now().Before(end) {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, one := range all {
			if !time.Now().Before(end) {
				break
			}
			choices := random.Uint64()
			if !t.Run(one.name, func(t *testing.T) { one.run(t, choices) }) {
				t.Fatalf("%s failed, turn %d: repeat with `make soak SECONDS=%d SEED=%d`", one.name, done+1, seconds,
					seed)
			}
			seen[one.name] = true
			done++
		}
	}
	t.Logf("%d turns, %d different ones of %d", done, len(seen), len(all))
}
