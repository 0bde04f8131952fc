// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/test/needs"
)

// symbols are the names that the NCCL for guests shows.
func symbols(t *testing.T, nccl string) []string {
	t.Helper()
	f, err := elf.Open(library(t, nccl))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range all {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			names = append(names, s.Name)
		}
	}
	return names
}

// The library needs nothing but the C library, and shows only what a guest calls: nothing of the C library's, which the
// rest of the process would find in it.
func TestLibrary(t *testing.T) {
	shown := regexp.MustCompile(`^(p?nccl[A-Z]|cuda[A-Z]|nvml[A-Z]|ddlemuSoft[A-Z]|ddlemu_(compute|computed|now)$)`)
	for _, nccl := range locate.SoftVersions {
		names := symbols(t, nccl)
		for _, name := range []string{"ncclAllReduce", "cudaStreamSynchronize", "ddlemuSoftEventWait",
			"ddlemuSoftAwaitHandover", "ddlemuSoftSetLedger", "ddlemu_compute", "ddlemu_now", "ddlemu_computed"} {
			if !slices.Contains(names, name) {
				t.Errorf("%s does not show %s", nccl, name)
			}
		}
		for _, name := range names {
			if !shown.MatchString(name) {
				t.Errorf("%s shows %s", nccl, name)
			}
		}
		f, err := elf.Open(library(t, nccl))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		needed, err := f.ImportedLibraries()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range needed {
			if name != "libc.so.6" && name != "libm.so.6" && name != "ld-linux-x86-64.so.2" {
				t.Errorf("%s needs %s", nccl, name)
			}
		}
	}
}

// traps compiles a library that has all the names of the guest's and stands for the process's own NVML. Each of its
// functions ends the process.
func traps(t *testing.T, nccl string) string {
	t.Helper()
	var code strings.Builder
	for _, name := range symbols(t, nccl) {
		fmt.Fprintf(&code, "void %s(void) { __builtin_trap(); }\n", name)
	}
	dir := t.TempDir()
	source, path := filepath.Join(dir, "traps.c"), filepath.Join(dir, "traps.so")
	if err := os.WriteFile(source, []byte(code.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "gcc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o",
		path, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// The library calls its own functions, although the process has others of these names.
func TestOtherLibraries(t *testing.T) {
	for _, nccl := range locate.SoftVersions {
		t.Run(nccl, func(t *testing.T) {
			job{nccl: nccl, clock: "virtual", what: "values", env: []string{"PRELOAD=" + traps(t, nccl)}}.run(t)
		})
	}
}

// NVIDIA's CUDA runtime is in the process before, as with PyTorch for CUDA.
func TestNVIDIARuntime(t *testing.T) {
	needs.PyPI(t, "../../build/cudart/version")
	found, err := filepath.Glob("../../build/cudart/nvidia/*/lib/libcudart.so.1[23]")
	if err != nil || len(found) != 2 {
		t.Fatalf("NVIDIA's CUDA runtimes are %q, %v", found, err)
	}
	for _, path := range found {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(path),
			func(t *testing.T) { each(t, job{what: "values", env: []string{"PRELOAD=" + path}}) })
	}
}
