// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/test/built"
)

// system is an NCCL version on the software CUDA, on a fabric with one of the two clocks.
type system struct{ nccl, clock string }

func (s system) String() string { return s.nccl + "/" + s.clock }

// The NCCL versions, and the clocks.
var (
	versions = []string{"2.22", "2.29"}
	clocks   = []string{configs.RealClock, configs.VirtualClock}
)

// beside lets a test on the virtual clock, whose ranks wait without polling, run beside others after those on the real
// clock. It is for `go test`: TestSoak runs one turn at a time.
func beside(t *testing.T, clock string) {
	t.Helper()
	if clock == configs.VirtualClock {
		t.Parallel()
	}
}

// systems are all of them.
func systems() (all []system) {
	for _, version := range versions {
		for _, clock := range clocks {
			all = append(all, system{version, clock})
		}
	}
	return all
}

// scratch is the folder of the ranks' compiled program.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "ddlemu-soak-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(scratch)
	os.Exit(status)
}

// libraries is the library path of a rank: NCCL, the software CUDA and the plugin.
func libraries(t *testing.T, version string) string {
	t.Helper()
	return "LD_LIBRARY_PATH=" + built.Path(t, "softcuda", "lib", "nccl-"+version) + ":" +
		built.Path(t, "softcuda", "lib") + ":" + built.Path(t, "lib")
}

var compile sync.Once

// program compiles the program of the ranks, as a user would.
func program(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(scratch, "soak")
	compile.Do(func() {
		sources, err := filepath.Glob("testdata/*.cc")
		if err != nil {
			t.Fatal(err)
		}
		// One file compiles in a third of the time.
		var all strings.Builder
		for _, name := range sources {
			fmt.Fprintf(&all, "#include \"%s\"\n", name)
		}
		cmd := exec.Command("g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-x", "c++", "-", "-I.",
			"-I"+built.Path(t, "softcuda", "include"),
			"-L"+built.Path(t, "softcuda", "lib"), "-lnccl", "-lcudart", "-o", bin)
		cmd.Stdin = strings.NewReader(all.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
	})
	if _, err := os.Stat(bin); err != nil {
		t.Fatal("the program was not compiled: see the first failure")
	}
	return bin
}

// environment is the environment of every process, with dir as the folder of fabrics.
func environment(dir string) []string { return append(built.Environ(), "DDLEMU_DIR="+dir) }

// folder makes a folder of fabrics. At the end of the test they are taken down, and then no file
// may remain.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ddlemu-soak-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer os.RemoveAll(dir)
		if t.Failed() {
			return
		}
		if out, err := command(dir, "down", "--all"); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range files {
			// Locks that keep two commands from making the same fabric.
			if !strings.HasSuffix(e.Name(), ".lock") {
				t.Errorf("file remains: %s", e.Name())
			}
		}
	})
	return dir
}

// ddlemu runs a command that must succeed and returns what it printed.
func ddlemu(t *testing.T, dir string, args ...string) string {
	t.Helper()
	built.Path(t, "bin", "ddlemu")
	out, err := command(dir, args...)
	if err != nil {
		t.Fatalf("ddlemu %s: %v:\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func command(dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../build/bin/ddlemu", args...)
	cmd.Env = environment(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
