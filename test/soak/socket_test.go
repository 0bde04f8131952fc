// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// keptLine is what a rank prints after it has made and destroyed communicators: the private memory before and after, in
// KiB.
var keptLine = regexp.MustCompile(`rounds (\d+) to (\d+): .*, memory (\d+) to (\d+) KiB`)

// kept returns how much private memory a rank keeps per communicator, in KiB: the mean of the ranks.
func (w *world) kept() float64 {
	w.t.Helper()
	var sum float64
	for i, p := range w.ranks {
		found := false
		for _, l := range p.lines {
			if m := keptLine.FindStringSubmatch(l.text); m != nil {
				found = true
				sum += (atof(w.t, m[4]) - atof(w.t, m[3])) / (atof(w.t, m[2]) - atof(w.t, m[1]))
			}
		}
		if !found {
			w.fatalf("rank %d has printed nothing about its memory", i)
		}
	}
	return sum / float64(len(w.ranks))
}

func atof(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// overSocket is the environment of ranks that use NCCL's own sockets. Each is a host of its own.
var overSocket = setup{
	env:  []string{"NCCL_NET_PLUGIN=none", "NCCL_NET=Socket"},
	wrap: []string{"sh", "-c", `NCCL_HOSTID=soak-$RANK exec "$0" "$@"`},
}

// plainMemory keeps memory that is free from looking like a leak: what the C library keeps for each thread, and what Go
// has not collected. Go's first collection comes at a heap of 4 MiB * GOGC / 100. With a GOGC of 25 that is 1 MiB: so
// much looked like a leak of 28 KiB for each of 30 communicators, and of 2 KiB for each of 580.
var plainMemory = []string{"MALLOC_ARENA_MAX=1", "GOGC=2"}

// A communicator that is made and destroyed leaves as much memory behind as with NCCL's own sockets: what remains is
// NCCL's. With SOAK_COMMUNICATORS=N both NCCLs make N communicators, one after another.
func TestCommunicatorsAgainstSockets(t *testing.T) {
	const (
		first   = 20
		limit   = 20 * time.Minute
		allowed = 24 // KiB
	)
	count, tried := number(t, "SOAK_COMMUNICATORS", 0), versions
	if count == 0 {
		count, tried = 50, versions[:1]
	}
	for _, version := range tried {
		t.Run(version, func(t *testing.T) {
			var kept [2]float64
			for i, s := range []setup{{}, overSocket} {
				s.on, s.profile, s.ranks, s.seed = system{version, "real"}, "loopback", 2, 1
				s.args, s.env = []string{"cycle", fmt.Sprint(count), fmt.Sprint(first)}, append(s.env, plainMemory...)
				w := start(t, s)
				w.finish(limit)
				kept[i] = w.kept()
			}
			t.Logf("memory that each of %d communicators leaves: %.1f KiB, over sockets %.1f KiB", count-first, kept[0],
				kept[1])
			if kept[0] > kept[1]+allowed {
				t.Errorf("%.1f KiB more than over sockets", kept[0]-kept[1])
			}
		})
	}
}
