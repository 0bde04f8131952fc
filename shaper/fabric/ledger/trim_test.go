// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

// endedProcess returns the number of a process that has ended.
func endedProcess(t *testing.T) uint32 {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return uint32(cmd.Process.Pid)
}

// onDisk is how many bytes of disk space a file takes.
func onDisk(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// A ledger of a process that has ended takes little more space than its records, and says the same. One that is full,
// and one of a process that lives, keep their space.
func TestTrim(t *testing.T) {
	const capacity, records = 1 << 16, 1000 // 64 B each
	for name, tc := range map[string]struct {
		pid     uint32
		records uint64
		most    int64
	}{
		"ended":         {endedProcess(t), records, records*recordSize + 64<<10},
		"ended at once": {endedProcess(t), 0, 64 << 10},
		"full":          {endedProcess(t), capacity + 5, capacity*recordSize + 64<<10},
		"lives":         {uint32(os.Getpid()), records, recordsAt + 2*capacity*recordSize},
	} {
		dir := t.TempDir()
		of := info
		of.PID = tc.pid
		path := Path(dir, 1, int(tc.pid))
		l, err := Create(path, capacity, of)
		if err != nil {
			t.Fatal(err)
		}
		l.Add(Connection{Src: 3})
		writeSome(l, 1000, tc.records)
		before, reserved := read(t, path), onDisk(t, path)
		if err := errors.Join(l.Close(), Trim(dir)); err != nil {
			t.Fatal(err)
		}
		if got := onDisk(t, path); got > tc.most || name == "lives" && got != reserved {
			t.Errorf("%s: %d bytes on disk of %d, want at most %d", name, got, reserved, tc.most)
		}
		if after := read(t, path); !reflect.DeepEqual(after, before) {
			t.Errorf("%s: it says something else", name)
		}
	}
}

// What is no ledger stays as it is, and is no error: whoever reads the folder says so.
func TestTrimLeavesWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rank0.1"+suffix)
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	before := onDisk(t, path)
	if err := Trim(dir); err != nil || onDisk(t, path) != before {
		t.Errorf("%v, %d bytes on disk, before %d", err, onDisk(t, path), before)
	}
}
