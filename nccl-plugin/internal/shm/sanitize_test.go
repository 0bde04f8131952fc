// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// sanitizers are gcc's flags for each build of the C code. The first has no sanitizer.
var sanitizers = []struct {
	name  string
	flags []string
}{
	{"plain", []string{"-O2"}},
	{"address,undefined", []string{"-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}},
	// The thread sanitizer does not support fences. copy.h has some: they order stores to
	// NCCL's buffers, which this test reads only after test has returned them.
	{"thread", []string{"-O1", "-g", "-fsanitize=thread", "-Wno-tsan"}},
}

// compileC builds testdata/NAME.c with the engine and this package's C code. It also reads the sources, so that their
// changes invalidate go test's cache.
func compileC(t *testing.T, name string, flags []string) string {
	t.Helper()
	var sources []string
	for _, pattern := range []string{"*.h", "*.c", "testdata/*.c", "../transport/*.[ch]",
		"../../../shaper/engine/link/*.[ch]", "../../../shaper/engine/sim/*.[ch]",
		"../../../shaper/engine/clock/*.[ch]"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("find %s: %v", pattern, err)
		}
		for _, f := range files {
			if _, err := os.ReadFile(f); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(f, ".c") && !strings.HasPrefix(f, "testdata/") {
				sources = append(sources, f)
			}
		}
	}
	program := filepath.Join(t.TempDir(), name)
	args := append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"}, flags...)
	args = append(append(args, filepath.Join("testdata", name+".c")), append(sources, "-lpthread", "-o", program)...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// runC runs a program of compileC on a new fabric with so many new regions: the fabric's file, the offset of the job's
// counters in it, the arguments, and the sizes of the regions. It returns the program's output.
func runC(t *testing.T, program string, wire link.Spec, tr link.Transport, regions int, args ...string) (string,
	error) {
	t.Helper()
	f := newFabric(t, wire, tr)
	job, err := f.JoinJob(1)
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{filepath.Join(f.Dir(), f.Name()+state.Suffix),
		strconv.FormatUint(job.LinkStatsOffset(), 10)}, args...)
	there, back := f.Path(0, 1), f.Path(1, 0)
	var files []*os.File
	for i := range regions {
		r, err := newRegion(flowAndRing, minRing, f.ID(), uint64(i+1), there, back, 4)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, strconv.Itoa(len(r.mem)))
		unix.Munmap(r.mem)
		file := os.NewFile(uintptr(r.fd), "region")
		defer file.Close()
		files = append(files, file)
	}
	run := func(name string, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.ExtraFiles = files
		cmd.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1", "ASAN_OPTIONS=detect_leaks=1",
			"UBSAN_OPTIONS=print_stacktrace=1")
		return cmd.CombinedOutput()
	}
	out, err := run(program, args...)
	if bytes.Contains(out, []byte("unexpected memory mapping")) {
		// gcc 12's thread sanitizer stops if the kernel randomises addresses by more bits than it expects.
		out, err = run("setarch", append([]string{"--addr-no-randomize", program}, args...)...)
	}
	return string(out), err
}

// runThreads runs testdata/threads.c with three connections, and a fourth that comes and goes.
func runThreads(t *testing.T, program string, wire link.Spec, tr link.Transport, seed, messages, depth int) (string,
	error) {
	t.Helper()
	return runC(t, program, wire, tr, 4, strconv.Itoa(seed), strconv.Itoa(messages), strconv.Itoa(depth))
}

// maxDepth is DDLEMU_MAX_REQUESTS.
const maxDepth = 32

// An end notices every post of the other. With one message in flight at a time, no later message
// makes up for a post that it missed: the end would wait for ever.
func TestNoPostIsMissed(t *testing.T) {
	program := compileC(t, "threads", sanitizers[0].flags)
	for kind, tr := range map[string]link.Transport{"tcp": tcp, "rdma": rdma} {
		if out, err := runThreads(t, program, unshaped, tr, 1, 3000, 1); err != nil {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
}

// gcc's sanitizers find no mistake in the C code of both ends, over links without limits, and over
// links with a rate, losses and jitter.
func TestThreads(t *testing.T) {
	lossy := link.Spec{
		Bandwidth: 20e9, Latency: 20 * time.Microsecond, MTU: 4096, Header: 40,
		Jitter: link.Jitter{Kind: link.Normal, Value: 5 * time.Microsecond}, Loss: link.Loss{P: 0.001},
	}
	const messages = 80
	for _, s := range sanitizers {
		t.Run(s.name, func(t *testing.T) {
			if testing.Short() && s.name != "plain" {
				t.Skip("compiling and running under a sanitizer takes long")
			}
			program := compileC(t, "threads", s.flags)
			for name, wire := range map[string]link.Spec{"unshaped": unshaped, "lossy": lossy} {
				for kind, tr := range map[string]link.Transport{"tcp": tcp, "rdma": rdma} {
					tr.RTO = 1e6 // so that a loss costs little
					out, err := runThreads(t, program, wire, tr, 1, messages, maxDepth)
					if err != nil ||
						!strings.HasSuffix(out, fmt.Sprintf("3 connections, %d messages each: ok\n", messages)) {
						t.Errorf("%s %s: %v\n%s", name, kind, err, out)
					}
				}
			}
		})
	}
}

// A peer may rewrite what it has posted at any time. Each value of it is read once, before it is checked, by an access
// that is atomic: otherwise the compiler may read it again after the check.
func TestPeerRewritesItsPosts(t *testing.T) {
	wire := link.Spec{Bandwidth: 100e9, Latency: 2 * time.Microsecond, MTU: 4096}
	const messages = 200
	for _, s := range sanitizers {
		t.Run(s.name, func(t *testing.T) {
			if testing.Short() && s.name != "plain" {
				t.Skip("compiling and running under a sanitizer takes long")
			}
			program := compileC(t, "rewrite", s.flags)
			for kind, tr := range map[string]link.Transport{"tcp": tcp, "rdma": rdma} {
				for _, peer := range []string{"sender", "receiver"} {
					out, err := runC(t, program, wire, tr, 1, peer, strconv.Itoa(messages))
					if err != nil || !strings.HasSuffix(out, fmt.Sprintf("%d messages\n", messages)) {
						t.Errorf("%s, the %s rewrites: %v\n%s", kind, peer, err, out)
					}
				}
			}
		})
	}
}

// A late call makes the steps of all connections. What it costs does not depend on how many of them are idle.
func TestIdleConnectionsCostNothing(t *testing.T) {
	program := compileC(t, "late", sanitizers[0].flags)
	wire := link.Spec{Bandwidth: 100e9, Latency: 2 * time.Microsecond, MTU: 4096}
	out, err := runC(t, program, wire, tcp, 65, "500")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var alone, withIdle int
	if _, err := fmt.Sscan(out, &alone, &withIdle); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	t.Logf("%d ns alone, %d ns beside 64 idle connections", alone, withIdle)
	if withIdle > 2*alone {
		t.Errorf("a late call takes %d ns beside 64 idle connections, %d ns alone", withIdle, alone)
	}
}

// Late calls make the steps of all connections in the order of their times: messages that were posted together and
// share a port arrive together. A step that only the other process knows of is found after a few late calls.
func TestLateStepsAreMadeInOrder(t *testing.T) {
	program := compileC(t, "order", sanitizers[0].flags)
	wire := link.Spec{Bandwidth: 100e9, Latency: 2 * time.Microsecond, MTU: 4096}
	const conns = 10
	out, err := runC(t, program, wire, tcp, conns)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var apart time.Duration
	var calls int
	if _, err := fmt.Sscan(out, (*int64)(&apart), &calls); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	// A message takes 84 us on the port. One after the other, the last of 9 would arrive 671 us after the first.
	if apart > 90*time.Microsecond {
		t.Errorf("the messages arrived within %v", apart)
	}
	if calls < 1 || calls > conns {
		t.Errorf("a post of the other process was read after %d late calls", calls)
	}
}
