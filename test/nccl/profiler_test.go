// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/test/built"
)

// Every version of the profiler interface tells the ledger the same.
func TestProfilerVersions(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "profiler")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "testdata/profiler.c", "-o", bin,
		"-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for version := 1; version <= 6; version++ {
		dir := t.TempDir()
		cmd := exec.Command(bin, built.Path(t, "lib", "libgoemu.so"), fmt.Sprint(version))
		cmd.Env = append(os.Environ(), "DDLEMU_DIR="+folder(t), "DDLEMU_TRACE="+dir, "RANK=0", "WORLD_SIZE=1")
		out, err := cmd.CombinedOutput()
		if want := "mask 31, NCCL_PROFILER_PLUGIN " + built.Path(t, "lib", "libgoemu.so"); err != nil ||
			!strings.Contains(string(out), want) {
			t.Fatalf("version %d: %v, want %q:\n%s", version, err, want, out)
		}
		paths, err := ledger.Files(dir)
		if err != nil || len(paths) != 1 {
			t.Fatalf("version %d: %q, %v", version, paths, err)
		}
		c, err := ledger.Read(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		checkProfiled(t, version, c)
	}
}

func checkProfiled(t *testing.T, version int, c *ledger.Content) {
	t.Helper()
	if len(c.Tasks) != 2 || len(c.Ops) != 2 || len(c.Records) != 0 || c.Unreadable != 0 {
		t.Fatalf("version %d: %+v", version, c)
	}
	ranks, rank := int32(0), int32(-1) // before version 4 NCCL does not say
	if version >= 4 {
		ranks, rank = 4, 1
	}
	for i, want := range []ledger.Task{
		{Number: 1, Kind: ledger.TaskKind, Func: 3, Algo: 1, Proto: 2, Datatype: 7, Comm: 77, Seq: 12, Group: 1,
			Count: 1000, Ranks: ranks, Rank: rank},
		{Number: 2, Kind: ledger.TaskKind, Func: 6, Algo: ledger.Unknown, Proto: ledger.Unknown, Datatype: 1, Comm: 77,
			Group: 1, Count: 9, Peer: 3, Ranks: ranks, Rank: rank},
	} {
		got := c.Tasks[i]
		if got.Begun <= 0 {
			t.Errorf("version %d: task %d begun at %d", version, i, got.Begun)
		}
		if got.Begun = 0; got != want {
			t.Errorf("version %d: %+v, want %+v", version, got, want)
		}
	}
	for i, channel := range []uint16{2, 5} {
		got := c.Ops[i]
		if (got.Ended > 0) != (i == 0) || got.Begun <= 0 {
			t.Errorf("version %d: operation %d begun at %d, ended at %d", version, i, got.Begun, got.Ended)
		}
		got.Begun, got.Ended = 0, 0
		want := ledger.Op{Number: uint64(3 + i), Kind: ledger.OpKind, Task: uint32(1 + i), PID: int32(c.PID), Rank: 1,
			Peer: 3, Channel: channel, Sends: 1, Steps: 4, Chunk: 512}
		if got != want {
			t.Errorf("version %d: %+v, want %+v", version, got, want)
		}
	}
}

// A profiler of the user's gets NCCL's events, with its own handles, while the ledger does too.
func TestUsersProfiler(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"4", "6"} {
		lib := filepath.Join(t.TempDir(), "libusers.so")
		if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC",
			"-DVERSION="+version, "testdata/users_profiler.c", "-o", lib).CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		dir, counts := filepath.Join(t.TempDir(), "t"), filepath.Join(t.TempDir(), "counts")
		env := []string{"NCCL_PROFILER_PLUGIN=" + lib, "PROFILER_COUNTS=" + counts}
		bench(t, folder(t), env, "allreduce", "--profile", "ndr400", "--ranks", "2", "--nccl", "2.29", "-b", "1M", "-e",
			"1M", "-n", "3", "-w", "1", "--trace", dir)
		got := messagesOf(t, dir)
		for _, m := range got.Messages {
			if m.Function != "AllReduce" {
				t.Fatalf("version %s: %+v", version, m)
			}
		}
		all := profiledBy(t, counts)
		if len(all) != 2 {
			t.Fatalf("version %s: %+v", version, all)
		}
		waits := 0
		for _, p := range all {
			if p.group == 0 || p.coll != 8 || p.op == 0 || p.step == 0 || p.wrong != 0 || p.stops != p.group+p.coll+
				p.op+p.step {
				t.Errorf("version %s: %+v", version, p)
			}
			waits += p.waits
		}
		if waits != 2*len(got.Messages) {
			t.Errorf("version %s: the user's profiler saw %d posts of %d messages", version, waits, len(got.Messages))
		}
	}
}

// profiled is what the user's profiler of a process has counted.
type profiled struct{ group, coll, op, step, stops, waits, wrong int }

// profiledBy reads what the profilers have written into the files that begin with counts.
func profiledBy(t *testing.T, counts string) (all []profiled) {
	t.Helper()
	files, err := filepath.Glob(counts + ".*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var p profiled
		if _, err := fmt.Sscanf(string(text), "group %d coll %d op %d step %d stops %d waits %d wrong %d", &p.group,
			&p.coll, &p.op, &p.step, &p.stops, &p.waits, &p.wrong); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, p)
	}
	return all
}
