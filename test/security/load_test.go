// SPDX-License-Identifier: Apache-2.0

package security

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// fabricOfFour brings up a fabric of 2 nodes with 4 GPUs each, and returns its folder and file. On
// this fabric rank 1 is on node 0; without a fabric rank 1 is on node 1.
func fabricOfFour(t *testing.T) (dir, file string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ddlemu-security")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c, err := configs.Decode("test", []byte("name: test\nbase: eth10\nnodes: 2\ngpus_per_node: 4\n"))
	if err != nil {
		t.Fatal(err)
	}
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := fabricfile.Describe(fab, "four")
	if err != nil {
		t.Fatal(err)
	}
	d, err := state.OpenDir(dir, os.Getuid(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f, err := d.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "four"+state.Suffix)
}

// The plugin's constructor reads a fabric only if it is private to this user. Whatever else has its
// name, the program starts.
func TestLoadingTrustsNoOthersFabric(t *testing.T) {
	lib := built.Path(t, "lib", "libgoemu.so")
	program := compile(t, openTemp(t), 0o755)
	const another = "another user's file"
	for name, tc := range map[string]struct {
		change func(t *testing.T, dir, file string) (use string)
		want   string
	}{
		"its own": {func(_ *testing.T, dir, _ string) string { return dir }, "ddlemu-node0"},
		"a folder others see": {
			func(t *testing.T, dir, _ string) string { must(t, os.Chmod(dir, 0o755)); return dir }, "ddlemu-node1"},
		"a folder others write": {
			func(t *testing.T, dir, _ string) string { must(t, os.Chmod(dir, 0o720)); return dir }, "ddlemu-node1"},
		"a file others read": {
			func(t *testing.T, dir, file string) string { must(t, os.Chmod(file, 0o604)); return dir }, "ddlemu-node1"},
		"another user's folder": {func(t *testing.T, dir, _ string) string {
			needs.Root(t, another)
			must(t, os.Chown(dir, nobody, -1))
			return dir
		}, "ddlemu-node1"},
		"another user's file": {func(t *testing.T, dir, file string) string {
			needs.Root(t, another)
			must(t, os.Chown(file, nobody, -1))
			return dir
		}, "ddlemu-node1"},
		"a link to the folder": {func(t *testing.T, dir, _ string) string {
			link := filepath.Join(openTemp(t), "link")
			must(t, os.Symlink(dir, link))
			return link
		}, "ddlemu-node1"},
		"a link to the file": {func(t *testing.T, dir, file string) string {
			must(t, os.Rename(file, file+".moved"))
			must(t, os.Symlink(file+".moved", file))
			return dir
		}, "ddlemu-node1"},
		"a pipe": {func(t *testing.T, dir, file string) string {
			must(t, os.Remove(file))
			must(t, unix.Mkfifo(file, 0o600))
			return dir
		}, "ddlemu-node1"},
		"a cut file": {func(t *testing.T, dir, file string) string { must(t, os.Truncate(file, 100)); return dir },
			"ddlemu-node1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := fabricOfFour(t)
			use := tc.change(t, dir, file)
			out := start(t, nil, []string{"DDLEMU_DIR=" + use}, program, lib, "load")
			if want := "hostid " + tc.want + "\n"; !strings.Contains(out, want) {
				t.Errorf("want %q:\n%s", want, out)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
