// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOpenDirRefuses(t *testing.T) {
	me := os.Getuid()
	const noFolder = "open the folder of fabrics: it must be a folder itself and not a link \\(remove it or set DDLEMU_DIR to another\\): open .*/x: not a directory"
	for name, tc := range map[string]struct {
		make   func(t *testing.T, path string)
		uid    int
		create bool
		kind   error
		want   string
	}{
		"none": {func(t *testing.T, path string) {}, me, false, fs.ErrNotExist,
			"open the folder of fabrics: open .*/x: no such file or directory"},
		"mode 0755": {mkdir(0o755), me, false, nil,
			"folder .*/x belongs to user [0-9]+ with mode 0755, want user [0-9]+ and mode 0700: set DDLEMU_DIR to a folder of yours with mode 0700, or to one that does not exist yet"},
		"mode 0710": {mkdir(0o710), me, true, nil, "folder .*/x belongs .* mode 0710, .*"},
		"mode 0701": {mkdir(0o701), me, true, nil, "folder .*/x belongs .* mode 0701, .*"},
		"another's": {mkdir(0o700), me + 1, false, nil,
			"folder .*/x belongs to user [0-9]+ with mode 0700, want user [0-9]+ and mode 0700: set DDLEMU_DIR to a folder of yours with mode 0700, or to one that does not exist yet"},
		"another's, create": {mkdir(0o700), me + 1, true, nil,
			"folder .*/x belongs to user [0-9]+ with mode 0700, want user [0-9]+ .*"},
		"a file": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, nil, 0o700); err != nil {
				t.Fatal(err)
			}
		}, me, true, nil, noFolder},
		"a link": {func(t *testing.T, path string) {
			mkdir(0o700)(t, path+"2")
			symlink(t, path+"2", path)
		}, me, true, nil, noFolder},
		"a link to nothing": {func(t *testing.T, path string) { symlink(t, path+"2", path) }, me, true, nil, noFolder},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			tc.make(t, path)
			for _, given := range []string{path, path + "/", path + "//."} {
				_, err := OpenDir(given, tc.uid, tc.create)
				checkError(t, err, tc.kind, tc.want)
			}
		})
	}
}

func mkdir(mode os.FileMode) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		t.Helper()
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		chmod(t, path, mode) // whatever the umask is
	}
}

func TestOpenDirMakes(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	d, err := OpenDir("x/", os.Getuid(), true)
	if err != nil {
		t.Fatal(err)
	}
	if d.Path != filepath.Join(top, "x") {
		t.Errorf("path %s is not absolute and clean", d.Path)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	st, err := os.Stat("x")
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("made as %v, %v", st, err)
	}
	if d, err = OpenDir("x", os.Getuid(), true); err != nil {
		t.Errorf("a second time: %v", err)
	} else {
		d.Close()
	}
	_, err = OpenDir("no/such", os.Getuid(), true)
	checkError(t, err, fs.ErrNotExist, "make the folder of fabrics: mkdir .*/no/such: no such file or directory")
	_, err = OpenDir("x/x.fabric/y", os.Getuid(), true)
	checkError(t, err, fs.ErrNotExist, "make the folder of fabrics: .*")
}

// A folder made for another user belongs to that user. If that fails, the folder is
// removed.
func TestOpenDirForAnotherUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	const uid = 4711
	d, err := OpenDir(path, uid, true)
	if os.Getuid() != 0 {
		checkError(t, err, fs.ErrPermission, "give folder .*/x to user 4711: operation not permitted")
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left behind: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f := create(t, d, twoNodes("t"))
	f.Close()
	if f, err = d.Open("t"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	other, err := OpenDir(path, uid, false)
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	_, err = OpenDir(path, 0, false)
	checkError(t, err, nil, "folder .*/x belongs to user 4711 with mode 0700, want user 0 and mode 0700: .*")
}

func TestNamesAndOnlyToRead(t *testing.T) {
	d := newDir(t)
	check := func(names []string, only, refusal string) {
		t.Helper()
		got, err := d.Names()
		if diff := cmp.Diff(names, got); err != nil || diff != "" {
			t.Errorf("names: %v %s", err, diff)
		}
		one, err := d.OnlyToRead()
		if refusal != "" {
			checkError(t, err, nil, refusal)
		} else if one != only || err != nil {
			t.Errorf("only %q, %v, want %q", one, err, only)
		}
	}
	check(nil, "", "")
	// What is not a fabric's name is not listed.
	for _, name := range []string{".t.1.2", ".fabric", ".x.fabric", "-x.fabric", "x.fabric.fabric", "t.0.sock", "x",
		"readme.txt"} {
		if err := os.WriteFile(filepath.Join(d.Path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(filepath.Join(d.Path, name))
	}
	check(nil, "", "")
	create(t, d, twoNodes(AdHocPrefix+"0123"))
	check([]string{AdHocPrefix + "0123"}, "", "")
	create(t, d, twoNodes("b"))
	check([]string{AdHocPrefix + "0123", "b"}, "b", "")
	create(t, d, twoNodes("a"))
	if one, err := d.Shared(); one != "" || err == nil {
		t.Errorf("of two, %q is shared, %v", one, err)
	}
	check([]string{"a", AdHocPrefix + "0123", "b"}, "", "several fabrics are up \\(a, b\\): name one in DDLEMU_FABRIC")
	if err := d.Remove("a"); err != nil {
		t.Error(err)
	}
	check([]string{AdHocPrefix + "0123", "b"}, "b", "")
	// The fabric of a running command is not shared, but it is the one to read if there is no other.
	create(t, d, twoNodes(JobPrefix+"run-1"))
	if one, err := d.Shared(); one != "b" || err != nil {
		t.Errorf("shared %q, %v", one, err)
	}
	check([]string{AdHocPrefix + "0123", "b", JobPrefix + "run-1"}, "b", "")
	if err := d.Remove("b"); err != nil {
		t.Error(err)
	}
	check([]string{AdHocPrefix + "0123", JobPrefix + "run-1"}, JobPrefix+"run-1", "")
	if one, err := d.Shared(); one != "" || err != nil {
		t.Errorf("shared %q, %v", one, err)
	}
}

// The default folder is removed with its last fabric and made again for the next one:
// also for processes that have the old one open, and while others bring fabrics up and
// down.
func TestDefaultDirComesAndGoes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can have a default folder that is nobody else's")
	}
	uid := 1<<30 + os.Getpid()
	path := DefaultDir(uid)
	t.Cleanup(func() { os.RemoveAll(path) })
	d, err := OpenDir(path, uid, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 {
		a, b := create(t, d, twoNodes("a")), create(t, d, twoNodes("b"))
		a.Close()
		b.Close()
		if err := d.Remove("a"); err != nil {
			t.Fatal(err)
		}
		if names, err := d.Names(); len(names) != 1 || err != nil {
			t.Errorf("%v %v", names, err)
		}
		if err := d.Remove("b"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the folder is still there: %v", err)
		}
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			name := string(rune('a' + i))
			for range 50 {
				d, err := OpenDir(path, uid, true)
				if err != nil {
					t.Error(err)
					return
				}
				f, err := d.Create(twoNodes(name))
				if err != nil {
					t.Error(err)
					return
				}
				f.Close()
				if err := d.Remove(name); err != nil {
					t.Error(err)
				}
				d.Close()
			}
		})
	}
	wg.Wait()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// Remove removes the fabric's sockets, and no other files.
func TestRemove(t *testing.T) {
	d := newDir(t)
	create(t, d, twoNodes("lab"))
	create(t, d, twoNodes("lab.2"))
	for _, name := range []string{"lab", "lab.2"} {
		for _, slot := range []int{0, 2, 511} {
			if err := os.WriteFile(filepath.Join(d.Path, SocketName(name, slot)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"lab.x.sock", "lab.-1.sock", "lab..sock", "lab.01.sock", "lab.sock",
		"lab.7.sock.old"} {
		if err := os.WriteFile(filepath.Join(d.Path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Remove("lab"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open("lab"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed, but: %v", err)
	}
	want := []string{
		"lab.-1.sock", "lab..sock", "lab.01.sock", "lab.2.0.sock", "lab.2.2.sock", "lab.2.511.sock", "lab.2.fabric",
		"lab.7.sock.old", "lab.sock", "lab.x.sock",
	}
	got, err := d.files()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("left: %v %s", err, diff)
	}
	if err := d.Remove("lab"); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := d.Remove("lab.2"); err != nil {
		t.Error(err)
	}
	if got, _ := d.files(); slices.Contains(got, "lab.2.0.sock") || slices.Contains(got, "lab.2.fabric") {
		t.Errorf("left: %v", got)
	}
	if err := os.Mkdir(filepath.Join(d.Path, "t"+Suffix), 0o700); err != nil {
		t.Fatal(err)
	}
	checkError(t, d.Remove("t"), nil, "remove fabric t: remove .*/t.fabric: is a directory")
}

// A Dir stays the folder that was opened, also if another folder has its name now.
func TestDirFollowsTheFolder(t *testing.T) {
	d := newDir(t)
	moved := d.Path + "-moved"
	if err := os.Rename(d.Path, moved); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(moved) })
	if err := os.Mkdir(d.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	create(t, d, twoNodes("t"))
	if names, err := d.Names(); err != nil || len(names) != 1 {
		t.Errorf("names %v, %v", names, err)
	}
	if err := d.Remove("t"); err != nil {
		t.Error(err)
	}
	for _, path := range []string{moved, d.Path} {
		if left, err := os.ReadDir(path); err != nil || len(left) != 0 {
			t.Errorf("left in %s: %v %v", path, left, err)
		}
	}
}

func TestDefaultDir(t *testing.T) {
	if got := DefaultDir(1000); got != "/dev/shm/ddlemu-1000" {
		t.Error(got)
	}
}
