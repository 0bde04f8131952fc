// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/test/built"
)

// scenario is one use of NCCL.
type scenario struct {
	name    string
	only    string // the NCCL version that has it, if not both
	profile string // default loopback
	ranks   int    // default 2
	args    string
	env     []string
	says    string // what NCCL's log must say, so that the setting took effect
	// What `go test` runs: the NCCL version, "" for nothing, and other arguments.
	quick, quickArgs string
	limit            time.Duration // default 2 minutes
	clock            string        // the clock that has it, if not both
}

var basic = []scenario{
	{name: "collectives", profile: "eth10", args: "collectives all 1000003 2", quick: "2.22",
		quickArgs: "collectives all 300007 1"},
	{name: "collectives of 4", ranks: 4, args: "collectives all 300007 1"},
	{name: "group of 300", args: "groups 300 4", quick: "2.29", quickArgs: "groups 300 1"},
	{name: "storm", args: "storm 200", quick: "2.22", quickArgs: "storm 60"},
	{name: "storm of 4 on 10 Gb/s", profile: "eth10", ranks: 4, args: "storm 60"},
	{name: "20 communicators", args: "comms 20", env: []string{"NCCL_MAX_NCHANNELS=2"}, quick: "2.29",
		quickArgs: "comms 5", limit: 4 * time.Minute},
	{name: "split", ranks: 4, args: "split 2", quick: "2.22", quickArgs: "split 1", limit: 4 * time.Minute},
	{name: "abort", profile: "eth10", args: "abort", quick: "2.22", quickArgs: "abort connecting in-flight one-side",
		limit: 4 * time.Minute},
	// The plugin is loaded and unloaded each time: 2.29 keeps it when the plugin's own
	// default for this variable is not overruled. One arena, because glibc gives new
	// threads new ones, and then what it keeps in them looks like a leak.
	{name: "init 100 times", args: "cycle 100 20", env: []string{"NCCL_NET_PLUGIN_REF_COUNT=0", "MALLOC_ARENA_MAX=1"},
		quick: "2.29", quickArgs: "cycle 8 4", limit: 8 * time.Minute},
	{name: "bootstrap over the net", only: "2.29", args: "collectives all 100003 1", clock: configs.RealClock,
		env: []string{"NCCL_OOB_NET_ENABLE=1"}, quick: "2.29", quickArgs: "collectives allreduce 10007 1"},
	{name: "storm, bootstrap over the net", only: "2.29", profile: "eth10", ranks: 4, args: "storm 20",
		clock: configs.RealClock, env: []string{"NCCL_OOB_NET_ENABLE=1"}},
	{name: "shared comms", args: "storm 60", env: []string{"NCCL_NET_SHARED_COMMS=1"}},
	{name: "no shared comms", args: "storm 60", env: []string{"NCCL_NET_SHARED_COMMS=0"}, quick: "2.29",
		quickArgs: "storm 20"},
	{name: "32 channels", only: "2.22", args: "collectives all 1000003 1", env: channels(32), says: "32 coll channels",
		limit: 4 * time.Minute},
	{name: "64 channels", only: "2.29", args: "collectives all 1000003 1", env: channels(64), says: "64 coll channels",
		quick: "2.29", quickArgs: "collectives allreduce 1000003 1", limit: 4 * time.Minute},
}

// channels makes NCCL use n channels, for Send and Recv too, with enough shared memory
// for a ring on each.
func channels(n int) []string {
	return []string{
		fmt.Sprintf("NCCL_MIN_NCHANNELS=%d", n), fmt.Sprintf("NCCL_MAX_NCHANNELS=%d", n),
		fmt.Sprintf("NCCL_MIN_P2P_NCHANNELS=%d", n), fmt.Sprintf("NCCL_MAX_P2P_NCHANNELS=%d", n),
		"DDLEMU_MEMORY=1G",
	}
}

// scenarios are all of them.
func scenarios() []scenario {
	all := basic
	for _, size := range []int{64 << 10, 256 << 10, 1 << 20, 16 << 20} {
		s := scenario{name: fmt.Sprintf("NCCL_BUFFSIZE %d", size), args: "collectives all 1000003 1",
			env: []string{fmt.Sprintf("NCCL_BUFFSIZE=%d", size)}}
		if size == 64<<10 {
			s.quick, s.quickArgs = "2.22", "collectives allreduce 300007 1"
		}
		all = append(all, s)
	}
	for _, proto := range []string{"LL", "LL128", "Simple"} {
		env := func(algo string) []string { return []string{"NCCL_ALGO=" + algo, "NCCL_PROTO=" + proto} }
		all = append(all,
			scenario{name: "Ring " + proto, args: "collectives all 300007 1", env: env("Ring"), quick: "2.29",
				quickArgs: "collectives all 30011 1"},
			scenario{name: "Tree " + proto, args: "collectives allreduce 300007 2", env: env("Tree"), quick: "2.22",
				quickArgs: "collectives allreduce 30011 1"},
			scenario{name: "Tree of 4 " + proto, ranks: 4, args: "collectives allreduce 300007 1", env: env("Tree")},
		)
	}
	// PAT came with 2.23; it has no other protocol, and AllGather and ReduceScatter alone.
	return append(all, scenario{name: "PAT Simple", only: "2.29", ranks: 4, args: "collectives scatter 300007 1",
		env: []string{"NCCL_ALGO=PAT", "NCCL_PROTO=Simple"}})
}

// run runs a scenario and checks that every element was right, that the bytes crossed the
// emulated links, and that nothing remains.
func (s scenario) run(t *testing.T, on system, args string, seed uint64) {
	t.Helper()
	if s.profile == "" {
		s.profile = "loopback"
	}
	if s.limit == 0 {
		s.limit = 2 * time.Minute
	}
	env := s.env
	if s.says != "" {
		env = append([]string{"NCCL_DEBUG=INFO"}, env...)
	}
	if on.clock == configs.VirtualClock {
		// Either rank may copy a message from the other one's GPU memory, and one may do so for the first time late: 2
		// MiB.
		env = append([]string{"SHARED_KIB=4096"}, env...)
	}
	w := start(t, setup{on: on, profile: s.profile, ranks: max(s.ranks, 2), seed: seed, args: strings.Fields(args),
		env: env})
	w.allRight(s.limit)
	if w.carried() == 0 {
		w.fatalf("no bytes crossed the links")
	}
	for i, p := range w.ranks {
		if _, ok := p.printed(s.says); !ok && s.says != "" {
			w.fatalf("rank %d: NCCL's log does not say %q", i, s.says)
		}
	}
	if !testing.Verbose() {
		return
	}
	for _, p := range w.ranks {
		for _, l := range p.lines {
			if strings.Contains(l.text, "rounds") {
				t.Log(l.text)
			}
		}
	}
}

func TestScenarios(t *testing.T) {
	others := 0
	for _, s := range scenarios() {
		others += len(versions)
		if s.only != "" {
			others--
		}
		if s.quick == "" {
			continue
		}
		others--
		for _, clock := range clocks {
			if s.clock != "" && s.clock != clock {
				continue
			}
			t.Run(s.name+"/"+clock, func(t *testing.T) {
				beside(t, clock)
				s.run(t, system{s.quick, clock}, cmp.Or(s.quickArgs, s.args), 1)
			})
		}
	}
	t.Logf("only in `make soak`: %d pairs of a scenario and a version, and the full length of those here", others)
}

// The checks of the scenarios find faults planted in the program and in the plugin.
func TestScenariosCanFail(t *testing.T) {
	for _, tc := range []struct{ name, clock, args, env, says string }{
		{"a flipped bit", "real", "collectives allreduce 1027 1", "CORRUPT=1", "WRONG AllReduce"},
		{"a flipped bit in a message", "real", "groups 3 1", "CORRUPT=1", "WRONG Recv"},
		{"a leaked descriptor", "real", "cycle 2 1", "LEAK=1", "LEAK"},
		{"the plugin flips a bit", "real", "groups 20 1", "DDLEMU_FAULT=flip 3", "WRONG Recv"},
		{"the plugin leaks a descriptor", "real", "cycle 2 1", "DDLEMU_FAULT=leakfd 1", "LEAK"},
		{"a flipped bit on a virtual clock", "virtual", "collectives allreduce 1027 1", "CORRUPT=1", "WRONG AllReduce"},
		{"the plugin flips a bit on a virtual clock", "virtual", "groups 20 1", "DDLEMU_FAULT=flip 3", "WRONG Recv"},
		{"the plugin loses a message", "real", "groups 20 1", "DDLEMU_FAULT=lose 7", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			on := system{"2.22", tc.clock}
			faulty := "LD_LIBRARY_PATH=" + built.Path(t, "faults") + ":" + strings.TrimPrefix(libraries(t, on.nccl),
				"LD_LIBRARY_PATH=")
			w := start(t, setup{on: on, profile: "loopback", ranks: 2, seed: 1, args: strings.Fields(tc.args),
				env: []string{tc.env, faulty}})
			w.fails(tc.says)
		})
	}
}

// fails waits until a rank has failed and printed says. If says is empty, the ranks must hang.
func (w *world) fails(says string) {
	w.t.Helper()
	limit := time.Minute
	if says == "" {
		limit = 8 * time.Second
	}
	hangs := false
	select {
	case <-w.anyFailure():
	case <-time.After(limit):
		hangs = true
	}
	w.readAll()
	for _, p := range w.ranks {
		if _, ok := p.printed(says); ok && says != "" {
			return
		}
	}
	if !hangs || says != "" {
		w.fatalf("hang: %v; no rank printed %q", hangs, says)
	}
}
