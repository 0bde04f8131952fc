// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/test/built"
)

// What two users of NVTX in one process mark is in one ledger. A range that is older than all records is
// there when it has ended; what has no place is counted.
func TestRangesOfManyUsers(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "ranges")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "testdata/ranges.c", "-o", bin, "-ldl",
		"-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	dir := t.TempDir()
	cmd := exec.Command(bin, built.Path(t, "lib", "libgoemu.so"))
	cmd.Env = append(os.Environ(), "DDLEMU_DIR="+folder(t), "DDLEMU_TRACE="+dir, "RANK=0", "WORLD_SIZE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	paths, err := ledger.Files(dir)
	if err != nil || len(paths) != 1 {
		t.Fatalf("%q, %v", paths, err)
	}
	c, err := ledger.Read(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	checkRanges(t, c)
}

// A copy of the library that NCCL does not use gets the ranges: nothing is recorded, which is said.
func TestRangesOfAnotherCopy(t *testing.T) {
	t.Parallel()
	own := built.Path(t, "lib", "libgoemu.so")
	b, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "libgoemu.so")
	if err := os.WriteFile(other, b, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "t")
	cmd := ddlemu(t.Context(), t, folder(t), []string{"NVTX_INJECTION64_PATH=" + other}, "bench", "broadcast",
		"--profile", "ndr400", "--ranks", "2", "-b", "8", "-e", "8", "-n", "1", "-w", "0", "--trace", dir)
	out, err := cmd.CombinedOutput()
	if want := "NVTX_INJECTION64_PATH is " + other + ", but NCCL uses "; err != nil ||
		!strings.Contains(string(out), want) {
		t.Errorf("%v: no %q in\n%s", err, want, out)
	}
}

func checkRanges(t *testing.T, c *ledger.Content) {
	t.Helper()
	const capacity, names = 1 << 20, 32768
	// "early and long" and "of another user" have two records each, the latter's are overwritten.
	if len(c.Ranges) != capacity || c.Unreadable != 0 || c.NCCL != 0 {
		t.Errorf("%d ranges, %d unreadable, NCCL %d", len(c.Ranges), c.Unreadable, c.NCCL)
	}
	// Seven names were there before "name 0": the last ones of 40000 have no place, nor have 100 early marks.
	if want := uint64(100 + 40000 - (names - 7)); c.LostRanges != want {
		t.Errorf("%d ranges were lost, want %d", c.LostRanges, want)
	}
	first := c.Ranges[0]
	if first.Name != "early and long" || first.Order != 0 || first.Depth != 0 || first.Begun == 0 ||
		first.Begun > c.Begun || first.Ended <= c.Begun {
		t.Errorf("the first range is %+v; the ledger was begun at %d", first, c.Begun)
	}
	named := map[string]int{}
	for _, r := range c.Ranges {
		named[r.Name]++
	}
	if named["name 32760"] != 1 || named["name 32761"] != 0 || named["NCCL's own"] != 0 || named["in a child"] != 0 ||
		c.Ranges[len(c.Ranges)-1].Name != "many" {
		t.Errorf("%d names; the last range is %+v", len(named), c.Ranges[len(c.Ranges)-1])
	}
}
