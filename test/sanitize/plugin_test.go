// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/world"
)

var addressFlags = []string{"-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}

// gcc compiles a program and returns its path.
func gcc(t *testing.T, name string, args ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("gcc",
		append(args, "-o", program, "-ldl", "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("find %s: %v", pattern, err)
	}
	for _, f := range files {
		if _, err := os.ReadFile(f); err != nil { // so that go test's cache knows it
			t.Fatal(err)
		}
	}
	return files
}

// buildPlugin builds the plugin with its C instrumented.
func buildPlugin(t *testing.T) string {
	t.Helper()
	glob(t, "../../nccl-plugin/*.[ch]")
	glob(t, "../../nccl-plugin/internal/*/*.[ch]")
	lib := filepath.Join(t.TempDir(), "libgoemu.so")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-tags", "netgo,osusergo",
		"-ldflags=-X runtime.godebugDefault=asyncpreemptoff=1", "-o", lib, "../../nccl-plugin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS="+strings.Join(addressFlags, " "),
		"CGO_LDFLAGS=-fsanitize=address,undefined")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return lib
}

// TestPluginAddress runs the conformance suite's quick cases with an instrumented
// driver on an instrumented plugin, through the oldest vtable and the newest. It does not look for
// leaks: the sanitizer cannot see pointers in Go's memory.
func TestPluginAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("building the plugin under a sanitizer takes long")
	}
	lib := buildPlugin(t)
	driver := gcc(t, "conformance",
		append(append([]string{"-std=gnu11"}, addressFlags...), glob(t, "../conformance/driver/*.c")...)...)
	list, err := exec.Command(driver, "list").Output()
	if err != nil {
		t.Fatalf("list the cases: %v", err)
	}
	for _, version := range []string{"6", "12"} {
		for line := range strings.Lines(string(list)) {
			f := strings.Fields(line)
			t.Run(fmt.Sprintf("v%s/%s/%s", version, f[0], f[1]), func(t *testing.T) {
				if f[2] == "slow" {
					t.Skip("takes long even without a sanitizer")
				}
				runCase(t, driver, lib, version, f[1], f[0])
			})
		}
	}
}

func runCase(t *testing.T, driver, lib, version, mode, name string) {
	dir := world.Scratch(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, driver, lib, version, mode, name, "7")
	cmd.Env = append(built.Environ(), "ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0",
		"UBSAN_OPTIONS=print_stacktrace=1",
		"DDLEMU_DIR="+dir, "DDLEMU_PROFILE=loopback", "TORCHELASTIC_RUN_ID="+filepath.Base(dir))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	word, why, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	switch {
	case strings.Contains(stderr.String(), "Sanitizer") || strings.Contains(stderr.String(), "runtime error:"):
		t.Errorf("%s", &stderr)
	case word == "SKIP":
		t.Skip(why)
	case word != "PASS" || err != nil:
		t.Errorf("%s %v\n%s", out, err, &stderr)
	}
}
