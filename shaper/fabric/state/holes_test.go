// SPDX-License-Identifier: Apache-2.0

package state

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The memory of a file with holes is reserved when it is opened, not when it is accessed.
func TestOpenFillsHoles(t *testing.T) {
	d := newDir(t)
	valid(t, d)
	fd, err := unix.Open(filepath.Join(d.Path, "t"+Suffix), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	stat := func() (st unix.Stat_t) {
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	size := stat().Size
	if err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, size/2, size/4); err != nil {
		t.Skipf("no holes on this file system: %v", err)
	}
	if st := stat(); st.Blocks*512 >= size {
		t.Fatalf("%d blocks for %d bytes: there is no hole", st.Blocks, size)
	}
	f, err := d.Open("t")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if st := stat(); st.Blocks*512 < size {
		t.Errorf("%d blocks for %d bytes: a hole is left", st.Blocks, size)
	}
}
