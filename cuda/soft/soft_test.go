// SPDX-License-Identifier: Apache-2.0

// Package soft tests the software CUDA: its runtime alone, and real NCCL on it.
package soft

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// built returns the absolute path of build/softcuda. The test fails if there is none.
func built(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../build/softcuda")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lib", "libcudart.so")); err != nil {
		t.Fatalf("%v; run `make build` first", err)
	}
	return dir
}

// compile runs g++ and returns the program.
func compile(t *testing.T, name string, args ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("g++", append(args, "-o", program)...).CombinedOutput()
	if err != nil {
		t.Fatalf("g++ %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return program
}

// environment returns this process's environment without variables that change NCCL or the devices, plus settings of
// the form NAME=VALUE.
func environment(settings ...string) []string {
	var out []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "NCCL_") || strings.HasPrefix(name, "DDLEMU_") || name == "CUDA_VISIBLE_DEVICES" ||
			name == "LD_LIBRARY_PATH" {
			continue
		}
		out = append(out, e)
	}
	return append(out, settings...)
}

// sources lists the files that match the patterns.
func sources(t *testing.T, patterns ...string) []string {
	t.Helper()
	var out []string
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources match %s", p)
		}
		out = append(out, files...)
	}
	return out
}

// runUnits runs each test of the unit program in a separate process.
func runUnits(t *testing.T, program string, settings ...string) {
	t.Helper()
	names, err := exec.Command(program, "list").Output()
	if err != nil {
		t.Fatalf("list the unit tests: %v", err)
	}
	for _, name := range strings.Fields(string(names)) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, name)
			cmd.Env = environment(settings...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// unitFlags returns a user's compiler flags, and warnings.
func unitFlags(dir string) []string {
	return []string{"-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-I" + dir + "/include"}
}

func TestRuntime(t *testing.T) {
	dir := built(t)
	args := append(unitFlags(dir), sources(t, "testdata/unit/*.cc")...)
	program := compile(t, "unit", append(args, "-L"+dir+"/lib", "-lcudart", "-lpthread", "-ldl",
		"-Wl,-rpath,"+dir+"/lib")...)
	runUnits(t, program, "LD_LIBRARY_PATH="+dir+"/lib")
}

// The same tests with the runtime compiled with gcc's sanitizers.
func TestRuntimeSanitized(t *testing.T) {
	if testing.Short() {
		t.Skip("compiling under a sanitizer takes 20 seconds")
	}
	dir := built(t)
	for _, sanitizer := range []string{"address,undefined", "thread"} {
		t.Run(sanitizer, func(t *testing.T) {
			args := append(unitFlags(dir), "-fsanitize="+sanitizer, "-fno-sanitize-recover=all", "-Iinclude")
			args = append(args, sources(t, "testdata/unit/*.cc", "testdata/no_exec.cc", "exec/clock.cc",
				"exec/multicast.cc", "exec/polled.cc", "runtime/*.cc")...)
			program := compile(t, "unit", append(args, "-lpthread", "-ldl")...)
			runUnits(t, program, "LD_LIBRARY_PATH="+dir+"/lib")
		})
	}
}

// The runtime in the NCCL for guests.
func TestGuestRuntime(t *testing.T) {
	dir := built(t)
	libraries, err := filepath.Glob(filepath.Join(dir, "lib", "guest", "*.so"))
	if err != nil || len(libraries) == 0 {
		t.Fatalf("no libraries in %s/lib/guest; run `make build` first", dir)
	}
	for _, library := range libraries {
		t.Run(filepath.Base(library), func(t *testing.T) {
			args := append(unitFlags(dir), sources(t, "testdata/unit/main.cc", "testdata/guest/*.cc")...)
			runUnits(t, compile(t, "unit", append(args, library, "-lpthread", "-Wl,-rpath,"+filepath.Dir(library))...))
		})
	}
}

func TestVisibleDevices(t *testing.T) {
	dir := built(t)
	args := append(unitFlags(dir), sources(t, "testdata/unit/*.cc")...)
	program := compile(t, "unit", append(args, "-L"+dir+"/lib", "-lcudart", "-ldl")...)
	const uuid3 = "GPU-64646c65-6d75-2073-6f66-742047505503"
	tests := []struct {
		name     string
		settings []string
		want     string // bus numbers, or the error
	}{
		{"all", nil, "10 11 12 13 14 15 16 17"},
		{"fewer GPUs", []string{"DDLEMU_SOFT_GPUS=2"}, "10 11"},
		{"many GPUs", []string{"DDLEMU_SOFT_GPUS=32", "CUDA_VISIBLE_DEVICES=31"}, "2f"},
		{"order", []string{"CUDA_VISIBLE_DEVICES=3, 1"}, "13 11"},
		{"ends at the first invalid entry", []string{"CUDA_VISIBLE_DEVICES=2,8,1"}, "12"},
		{"ends at -1", []string{"CUDA_VISIBLE_DEVICES=2,-1,1"}, "12"},
		{"none", []string{"CUDA_VISIBLE_DEVICES="}, "cudaErrorNoDevice"},
		{"twice the same", []string{"CUDA_VISIBLE_DEVICES=1,1"}, "cudaErrorNoDevice"},
		{"by UUID", []string{"CUDA_VISIBLE_DEVICES=" + uuid3 + ",0"}, "13 10"},
		{"ambiguous UUID", []string{"CUDA_VISIBLE_DEVICES=GPU-64646c65"}, "cudaErrorNoDevice"},
		{"no GPUs", []string{"DDLEMU_SOFT_GPUS=0"}, "cudaErrorNoDevice"},
		{"bad number", []string{"DDLEMU_SOFT_GPUS=many"}, "cudaErrorInitializationError"},
		{"too many", []string{"DDLEMU_SOFT_GPUS=33"}, "cudaErrorInitializationError"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(program, "devices")
			cmd.Env = environment(append(tt.settings, "LD_LIBRARY_PATH="+dir+"/lib")...)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(strings.Fields(strings.NewReplacer("0000:", "", ":00.0", "").Replace(string(out))), " ")
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A C program can include cuda_runtime_api.h.
func TestHeaderIsC(t *testing.T) {
	dir := built(t)
	source := filepath.Join(t.TempDir(), "x.c")
	code := "#include <cuda_runtime_api.h>\nint main(void) { void *p; return cudaMalloc(&p, 8) || cudaFree(p); }\n"
	if err := os.WriteFile(source, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "x")
	out, err := exec.Command("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", source, "-I"+dir+"/include",
		"-L"+dir+"/lib", "-lcudart", "-o", program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Env = environment("LD_LIBRARY_PATH=" + dir + "/lib")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A C++ program that includes cuda_runtime.h alone has the functions of the C library that NVIDIA's header brings:
// NVIDIA's examples of NCCL use them so.
func TestHeaderBringsTheCLibrary(t *testing.T) {
	dir := built(t)
	source := filepath.Join(t.TempDir(), "x.cc")
	code := `#include <cuda_runtime.h>
int main()
{
	char *copy = static_cast<char *>(malloc(4));
	memcpy(copy, "abc", 4);
	std::pair<size_t, int> p(strlen(copy), INT_MAX);
	dim3 grid(2);
	return strcmp(copy, "abc") != 0 || p.first != 3 || time(nullptr) <= 0 || grid.x != 2 || grid.y != 1;
}
`
	if err := os.WriteFile(source, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	program := compile(t, "x", "-std=c++14", "-Wall", "-Werror", source, "-I"+dir+"/include")
	if out, err := exec.Command(program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
