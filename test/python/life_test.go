// SPDX-License-Identifier: Apache-2.0

package python

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/world"
)

// shared compiles a C file of testdata to a shared library.
func shared(t *testing.T, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), source+".so")
	compile(t, "gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fno-builtin", "-shared", "-o", path,
		filepath.Join("testdata", source), "-lpthread")
	return path
}

func compile(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestUnload(t *testing.T) {
	t.Parallel()
	good(t, nil, "life.py", "unload")
}

func TestThreads(t *testing.T) {
	t.Parallel()
	good(t, nil, "life.py", "threads")
}

func TestPreloadedAllocator(t *testing.T) {
	t.Parallel()
	good(t, []string{"LD_PRELOAD=" + shared(t, "allocator.c")}, "life.py", "preloaded")
}

func TestTwoGoLibraries(t *testing.T) {
	second := filepath.Join(t.TempDir(), "second.so")
	compile(t, "go", "build", "-buildmode=c-shared", "-trimpath", "-o", second, "./testdata/second")
	for _, order := range []string{"second_first", "second_last"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			good(t, []string{"SECOND=" + second}, "life.py", order)
		})
	}
}

// The ranks of mp.spawn set their variables themselves, before NCCL is loaded.
func TestSpawn(t *testing.T) {
	t.Parallel()
	good(t, nil, "spawn.py")
}

func TestNoLockedMemory(t *testing.T) {
	t.Parallel()
	good(t, nil, "life.py", "no_locked_memory")
}

// Go reserves address space when it starts. If a limit leaves too little, Go ends the process, and
// a line of the plugin says what to do.
func TestAddressSpace(t *testing.T) {
	const words = "ddlemu: libgoemu.so needs 1536 MiB of address space"
	t.Run("enough", func(t *testing.T) {
		t.Parallel()
		if o := good(t, nil, "life.py", "address_space"); strings.Contains(o.Stderr, words) {
			t.Errorf("a warning with enough address space:\n%s", o.Stderr)
		}
	})
	t.Run("too little", func(t *testing.T) {
		t.Parallel()
		o := run(t, world.Folder(t), []string{"WORLD_SIZE=1"}, "life.py", "no_room")
		if o.Stdout != "" || strings.Count(o.Stderr, words) != 1 {
			t.Errorf("exit status %d, signal %v, want %q once in\n%s", o.Exit, o.Signal, words, o.Stderr)
		}
	})
}
