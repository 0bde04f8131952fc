// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// The first process that describes the fabric wins; nobody reads half of a description.
func TestFabric(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"nodes: 2\n", "nodes: 3\n"} {
		if err := WriteFabric(dir, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	text, path, err := ReadFabric(dir)
	if err != nil || string(text) != "nodes: 2\n" || path != filepath.Join(dir, "fabric.yaml") {
		t.Errorf("%q in %s, %v", text, path, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := WriteFabric(filepath.Join(dir, "none"), nil); err == nil {
		t.Error("wrote into a folder that does not exist")
	}
}

// Changes that several processes have noted are there once, in the order of their times, up to a line
// that a process that was killed has not finished.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	first := Change{Time: 5, Hop: 2, Spec: link.Spec{Bandwidth: 1e9, Latency: 3 * time.Microsecond, MTU: 1500}}
	second := Change{Time: 9, Hop: 1, Spec: link.Spec{Down: true, MTU: 4096}}
	for rank, all := range [][]Change{{first, second}, {second}, {first}} {
		for _, c := range all {
			if err := AppendChange(dir, rank, 100+rank, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, "rank2.102.changes"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("12 3 00ff"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	got, err := ReadChanges(dir)
	if want := []Change{first, second}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.changes"), []byte("1 2 zz\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadChanges(dir); err == nil ||
		!strings.Contains(err.Error(), `the line "1 2 zz" is no change of a link`) {
		t.Errorf("%v", err)
	}
}

// Whatever the file contains, reading it ends.
func FuzzChanges(f *testing.F) {
	f.Add([]byte("5 2 00\n"))
	f.Add([]byte("5 2 " + strings.Repeat("01", 120) + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseChanges(nil, text)
		for _, c := range all {
			if err == nil && c.Hop < 0 {
				t.Errorf("%+v", c)
			}
		}
	})
}
