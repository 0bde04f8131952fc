// SPDX-License-Identifier: Apache-2.0

package temporary

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Left finds what a process has left, and nothing that is in use, has other files, or is another user's.
func TestLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	folder := func(files ...string) (string, *os.File) {
		dir, lock, err := Make("ddlemu-x-")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir, lock
	}
	left, lock := folder("rank0.log", "fabric.yaml")
	lock.Close()
	empty, lock := folder()
	lock.Close()
	_, lock = folder("rank0.log", "results")
	lock.Close()
	_, lock = folder("rank0.log")
	defer lock.Close()
	if err := os.Symlink(left, filepath.Join(os.TempDir(), "ddlemu-x-link")); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		others, lock := folder()
		lock.Close()
		if err := os.Chown(others, 65534, -1); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{left, empty}
	slices.Sort(want)
	if got, err := Left("ddlemu-x-", IsFile("rank*.*", "fabric.yaml")); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
