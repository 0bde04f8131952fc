// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/test/needs"
)

// NewKernel makes a world for fabrics of the kernel datapath. It skips the test without root. When the test ends, all
// fabrics are taken down and nothing may remain.
func NewKernel(t *testing.T) *World {
	t.Helper()
	needs.Root(t, "the kernel datapath")
	w := New(t)
	t.Cleanup(func() {
		w.Env = nil // the test may have planted a fault
		w.Try("down", "--all")
		w.Try("gc")
		w.CheckRemoved()
	})
	return w
}

// Namespaces returns the namespaces of the world's fabrics, of switches and of nodes.
func (w *World) Namespaces() []string {
	w.Helper()
	all, err := netns.List(netns.DirPrefix(w.Dir))
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// remains returns what exists of the world's fabrics: files, namespaces and daemons.
func (w *World) remains() []string {
	w.Helper()
	all := w.Namespaces()
	files, err := os.ReadDir(w.Dir)
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	for _, f := range files {
		all = append(all, f.Name())
	}
	for _, pid := range w.Daemons() {
		all = append(all, fmt.Sprintf("process %d", pid))
	}
	return all
}

// Daemons returns the process IDs of the world's daemons.
func (w *World) Daemons() []int {
	w.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.Fatal(err)
	}
	var pids []int
	for _, path := range lines {
		text, err := os.ReadFile(path)
		args := strings.Split(string(text), "\x00")
		if err != nil || !slices.Contains(args, w.Dir) || !slices.Contains(args, "daemon") {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// CheckRemoved fails the test if anything of the world's fabrics remains after 5 s. A daemon ends a moment after it has
// removed its fabric.
func (w *World) CheckRemoved() {
	w.Helper()
	var remains []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if remains = w.remains(); len(remains) == 0 {
			return
		}
	}
	w.Errorf("not removed: %v", remains)
}
