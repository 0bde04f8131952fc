// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"context"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// TestRank runs every collective with an instrumented ddlemu-rank on the stand-in
// for CUDA and NCCL that the benchmark's own tests use.
func TestRank(t *testing.T) {
	if testing.Short() {
		t.Skip("compiling and running under a sanitizer takes long")
	}
	fake := gcc(t, "libfakenccl.so",
		append([]string{"-O1", "-std=gnu11", "-shared", "-fPIC"},
			glob(t, "../../shaper/run/bench/testdata/fakenccl/*.c")...)...)
	for name, flags := range map[string][]string{"address": addressFlags,
		"thread": {"-O1", "-g", "-fsanitize=thread"}} {
		t.Run(name, func(t *testing.T) {
			rank := gcc(t, "ddlemu-rank",
				append(append([]string{"-std=c11"}, flags...), glob(t, "../../cuda/rank/*.c")...)...)
			for c := nccl.AllReduce; c.Known(); c++ {
				t.Run(c.String(), func(t *testing.T) { runRank(t, rank, fake, c) })
			}
		})
	}
}

func runRank(t *testing.T, rank, fake string, c nccl.Collective) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	env := []string{"FAKENCCL_DIR=" + t.TempDir(), "ASAN_OPTIONS=detect_leaks=1", "TSAN_OPTIONS=halt_on_error=1",
		"UBSAN_OPTIONS=print_stacktrace=1"}
	result, err := bench.Run(ctx, bench.Config{
		Collective: c, Sizes: []int64{0, 8, 4096}, Warmup: 1, Iters: 2, Check: true, Ranks: 2, Root: 1,
		RankBinary: rank, NCCLLibs: []string{fake}, CudartLibs: []string{fake},
		Env: func(int) []string { return env },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := result.Wrong(); wrong != 0 {
		t.Errorf("%d elements are wrong", wrong)
	}
}
