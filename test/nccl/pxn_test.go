// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"math"
	"os/exec"
	"path/filepath"
	"testing"
)

// By PXN a rank sends through the process of another rank of its node, whose GPU is beside another NIC. Its messages
// are known to be its own, also if the user has a profiler.
func TestMessagesThroughAnotherRank(t *testing.T) {
	t.Parallel()
	lib := filepath.Join(t.TempDir(), "libusers.so")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-DVERSION=6",
		"testdata/users_profiler.c", "-o", lib).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	counts := filepath.Join(t.TempDir(), "counts")
	users := []string{"NCCL_PROFILER_PLUGIN=" + lib, "PROFILER_COUNTS=" + counts}
	run := func(t *testing.T, version, rate string, env []string) (dir string) {
		dir = filepath.Join(t.TempDir(), "t")
		bench(t, folder(t), append(env, "NCCL_P2P_PXN_LEVEL=2"), "allreduce", "--profile", "efa-p4d", "--set",
			"link.jitter=none", "--bw", rate, "--nodes", "2", "--ranks", "4", "--set", "nics_per_node=2",
			"--nccl", version, "-b", "1M", "-e", "1M", "-n", "2", "-w", "1", "--trace", dir)
		return dir
	}
	whole := func(t *testing.T, dir string) (through int) {
		got := messagesOf(t, dir)
		for _, m := range got.Messages {
			if m.Function != "AllReduce" {
				t.Fatalf("%+v", m)
			}
			if m.SentBy != m.Sender {
				through++
			}
		}
		if len(got.Messages) == 0 || len(got.Notes) != 0 {
			t.Errorf("%d messages, notes %q", len(got.Messages), got.Notes)
		}
		return through
	}
	t.Run("NCCL's profiler says whose they are", func(t *testing.T) {
		slow, fast := run(t, "2.29", "100Gbps", nil), run(t, "2.29", "200Gbps", nil)
		if whole(t, slow) == 0 {
			t.Error("no message through another rank")
		}
		if why := whyOf(t, slow); len(why.Notes) != 0 {
			t.Errorf("why: notes %q", why.Notes)
		}
		there, back := whatIfOf(t, slow, "--bw", "2x"), whatIfOf(t, fast, "--bw", "0.5x")
		for i, f := range there.Changes[0].Functions {
			b := back.Changes[0].Functions[i]
			if math.Abs(f.After/b.Before-1) > 1e-4 || math.Abs(b.After/f.Before-1) > 1e-4 || f.Before == b.Before {
				t.Errorf("%+v\n%+v", f, b)
			}
		}
	})
	t.Run("NCCL 2.22 has no profiler", func(t *testing.T) {
		dir := run(t, "2.22", "100Gbps", nil)
		if through := whole(t, dir); through != 0 {
			t.Errorf("%d messages through another rank", through)
		}
		if got := whatIfOf(t, dir, "--bw", "2x"); len(got.Notes) == 0 {
			t.Error("whatif has no note, although it takes the messages for those of other ranks")
		}
	})
	t.Run("a profiler of the user's", func(t *testing.T) {
		if got := messagesOf(t, run(t, "2.29", "100Gbps", users)); len(got.Messages) == 0 {
			t.Error("no messages")
		}
		all := profiledBy(t, counts)
		for _, p := range all {
			if p.op == 0 || p.step == 0 || p.wrong != 0 || p.stops != p.group+p.coll+p.op+p.step {
				t.Errorf("%+v", p)
			}
		}
		if len(all) != 4 {
			t.Errorf("%d processes", len(all))
		}
	})
}
