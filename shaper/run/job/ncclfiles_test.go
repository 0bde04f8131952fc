// SPDX-License-Identifier: Apache-2.0

package job

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Only a file of NCCL that nobody maps or has open, and that is old enough, is an orphan.
func TestOrphanedNCCLFiles(t *testing.T) {
	folder, err := os.MkdirTemp("/dev/shm", "ddlemu-orphans-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	made := func(name string) *os.File {
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(f.Name(), old, old); err != nil {
			t.Fatal(err)
		}
		return f
	}
	made("nccl-orphan").Close()
	made("other").Close()
	open := made("nccl-open")
	defer open.Close()
	mapped := made("nccl-mapped")
	memory, err := unix.Mmap(int(mapped.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	mapped.Close()
	young := made("nccl-young")
	young.Close()
	if err := os.Chtimes(young.Name(), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "nccl-folder"), 0o700); err != nil {
		t.Fatal(err)
	}

	uid := uint32(os.Getuid())
	got, err := OrphanedNCCLFiles(folder, uid, time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if want := []NCCLFile{{filepath.Join(folder, "nccl-orphan"), 4096}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, err := OrphanedNCCLFiles(folder, uid+1, time.Now()); err != nil || len(got) > 0 {
		t.Errorf("files of another user: %v, %v", got, err)
	}
}
