// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// phasesJob compiles a job that uses NVTX's own headers, and its library, and returns the command.
func phasesJob(t *testing.T) []string {
	t.Helper()
	needs.PyPI(t, "../../build/nvtx/version")
	headers, err := filepath.Glob("../../build/nvtx/nvidia/*/include")
	if err != nil || len(headers) != 1 {
		t.Fatalf("NVTX's headers are in %q, %v", headers, err)
	}
	dir := t.TempDir()
	program, library := filepath.Join(dir, "phases"), filepath.Join(dir, "libphases.so")
	soft := built.Path(t, "softcuda")
	for _, args := range [][]string{
		{"testdata/phases.cc", "-o", program, "-I" + filepath.Join(soft, "include"), "-L" + filepath.Join(soft, "lib"),
			"-lnccl", "-lcudart"},
		{"testdata/phases_library.cc", "-o", library, "-shared", "-fPIC", "-fvisibility=hidden"},
	} {
		cmd := exec.Command("g++", append(args, "-std=c++17", "-O1", "-Wall", "-Werror", "-isystem", headers[0],
			"-lpthread", "-ldl")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
	}
	return []string{program, library}
}

// recordPhases runs that job, with further flags, and returns the folder of its ledgers.
func recordPhases(t *testing.T, job []string, flags ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t")
	args := append([]string{"run", "--profile", "ndr400", "--soft-cuda", "--trace", dir}, flags...)
	ddlemu(t, append(append(args, "--"), job...)...)
	return dir
}

// row is what is on one track of a trace, below the one of rank 0.
func (s *seen) row(name string) (all []drawnSlice) {
	for _, x := range s.Slices {
		if x.Rank == "rank 0" && x.Track == name {
			all = append(all, x)
		}
	}
	return all
}

// text is the slices of a row, with their depths.
func text(row []drawnSlice) string {
	var all []string
	for _, x := range row {
		all = append(all, strings.Repeat(">", x.Depth)+x.Name)
	}
	return strings.Join(all, ", ")
}

// The phases of a program that uses NVTX in itself, in a library and in a thread are on its rank's rows, at
// their times, and NCCL's own ranges are not.
func TestPhases(t *testing.T) {
	job := phasesJob(t)
	for _, version := range []string{"2.22", "2.29"} {
		dir := recordPhases(t, job, "--clock", "virtual", "--nccl", version)
		file := filepath.Join(t.TempDir(), "x.pftrace")
		out := ddlemu(t, "trace", dir, "-o", file)
		if !strings.Contains(out, "42 ranges") || !strings.Contains(out, "2 ranges had not ended") {
			t.Errorf("%s", out)
		}
		s := perfetto(t, file)
		rows := map[string]bool{}
		for _, x := range s.Slices {
			if x.Rank == "rank 0" && strings.HasPrefix(x.Track, "phases") {
				rows[x.Track] = true
			}
		}
		if len(rows) != 4 {
			t.Errorf("rows %v, want the main thread, its domain, another thread, any thread", rows)
		}
		step := ">forward, >rückwärts, "
		if got, want := text(s.row("phases")), "before NCCL, setup, step 0, "+step+"step 1, "+step+"step 2, "+step+
			"in a library, outer, open"; got != want {
			t.Errorf("NCCL %s: %s\nwant %s", version, got, want)
		}
		if got := text(s.row("phases, domain loader")); got != "read" {
			t.Errorf("domain: %s", got)
		}
		if got := text(s.row("phases, of any thread")); got != "first, second" {
			t.Errorf("of any thread: %s", got)
		}
		if !slices.Contains(s.Names, "loss") || !slices.Contains(s.Names, "in a thread") ||
			!slices.Contains(s.Names, "not ended") {
			t.Errorf("names %q", s.Names)
		}
		checkPhaseTimes(t, &s)
	}
}

// checkPhaseTimes holds the times of phases against what the program computes, and against its calls.
func checkPhaseTimes(t *testing.T, s *seen) {
	t.Helper()
	calls := s.row("calls")
	if len(calls) != 5 {
		t.Fatalf("%d calls", len(calls))
	}
	n := 0
	for _, x := range s.row("phases") {
		switch x.Name {
		case "forward":
			if x.End-x.Begin != 1_000_000 {
				t.Errorf("forward took %d ns, it computes for 1 ms", x.End-x.Begin)
			}
		case "rückwärts", "in a library":
			if c := calls[n]; c.Begin < x.Begin || c.Begin >= x.End {
				t.Errorf("%s is from %d to %d, its call %s from %d to %d", x.Name, x.Begin, x.End, c.Name, c.Begin,
					c.End)
			}
			n++
		case "open":
			if x.End < calls[4].End {
				t.Errorf("what is open ends at %d, before its call, at %d", x.End, calls[4].End)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d phases with calls", n)
	}
	for _, x := range append(s.row("phases, of any thread"), s.row("phases, domain loader")...) {
		if want := map[string]int64{"first": 4000, "second": 4000, "read": 2000}[x.Name]; x.End-x.Begin != want {
			t.Errorf("%s took %d ns, want %d", x.Name, x.End-x.Begin, want)
		}
	}
}

// On the real clock, phases before NCCL's init have the times at which they were.
func TestPhasesBeforeNCCL(t *testing.T) {
	dir := recordPhases(t, phasesJob(t), "--clock", "real", "--set", "time_scale=16")
	file := filepath.Join(t.TempDir(), "x.pftrace")
	ddlemu(t, "trace", dir, "-o", file)
	s := perfetto(t, file)
	row := s.row("phases")
	if len(row) < 3 || row[1].Name != "setup" || row[1].End-row[1].Begin < 10_000/16 || row[0].End > row[1].Begin ||
		row[1].End > row[2].Begin {
		t.Errorf("%+v", row)
	}
}

// A user's own injection is kept, which is said, and the program's ranges are not recorded.
func TestUsersInjection(t *testing.T) {
	job := phasesJob(t)
	users := filepath.Join(t.TempDir(), "tool.so")
	t.Setenv("NVTX_INJECTION64_PATH", users)
	dir := filepath.Join(t.TempDir(), "t")
	out, err := try(t,
		append([]string{"run", "--profile", "ndr400", "--clock", "virtual", "--soft-cuda", "--trace", dir, "--"},
			job...)...)
	if want := "NVTX_INJECTION64_PATH=" + users + " is kept"; err != nil || strings.Count(out, want) != 1 {
		t.Errorf("%v: no line %q in\n%s", err, want, out)
	}
	if out := ddlemu(t, "trace", dir, "-o", filepath.Join(t.TempDir(), "x.pftrace")); !strings.Contains(out,
		"5 calls, 80 messages") {
		t.Errorf("%s", out)
	}
	out, err = try(t, "bench", "broadcast", "--profile", "ndr400", "--ranks", "2", "-b", "8", "-e", "8", "-n", "1",
		"--trace", filepath.Join(t.TempDir(), "t"))
	if want := "NVTX_INJECTION64_PATH=" + users + " is kept"; err != nil || strings.Count(out, want) != 1 {
		t.Errorf("%v: no line %q in\n%s", err, want, out)
	}
}

// Without --trace the library takes no ranges, also if the user names it.
func TestPhasesWithoutTrace(t *testing.T) {
	t.Setenv("NVTX_INJECTION64_PATH", built.Path(t, "lib", "libgoemu.so"))
	if out := ddlemu(t, append([]string{"run", "--profile", "ndr400", "--clock", "virtual", "--soft-cuda", "--"},
		phasesJob(t)...)...); !strings.Contains(out, "verdict: VALID") {
		t.Errorf("%s", out)
	}
}
