// SPDX-License-Identifier: Apache-2.0

// Package exectest builds and runs the executor's C++ tests, which are in testdata.
package exectest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// build compiles the executor with its tests and returns the program. It also reads the sources, so that go test's
// cache depends on them.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, pattern := range []string{"../*.h", "../*.inc", "testdata/*.h"} {
		headers, err := filepath.Glob(pattern)
		if err != nil || len(headers) == 0 {
			t.Fatalf("find %s: %v", pattern, err)
		}
		for _, h := range headers {
			if _, err := os.ReadFile(h); err != nil {
				t.Fatal(err)
			}
		}
	}
	product, err := filepath.Glob("../*.cc")
	tests, err2 := filepath.Glob("testdata/*.cc")
	if err := errors.Join(err, err2); err != nil || len(product) == 0 || len(tests) == 0 {
		t.Fatalf("find sources: %v", err)
	}
	sources := slices.Concat(product, tests)
	common := append([]string{"-std=c++17", "-g", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-I.."}, flags...)
	var objects []string
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for _, s := range sources {
		if _, err := os.ReadFile(s); err != nil {
			t.Fatal(err)
		}
		o := filepath.Join(dir, filepath.Base(s)+".o")
		objects = append(objects, o)
		wg.Add(1)
		go func() {
			defer wg.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			if out, err := exec.Command("g++",
				slices.Concat(common, []string{"-c", s, "-o", o})...).CombinedOutput(); err != nil {
				t.Errorf("compile %s: %v\n%s", s, err, out)
			}
		}()
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	program := filepath.Join(dir, "exec_test")
	link := slices.Concat(flags, []string{"-o", program}, objects)
	if out, err := exec.Command("g++", append(link, "-pthread")...).CombinedOutput(); err != nil {
		t.Fatalf("link: %v\n%s", err, out)
	}
	return program
}

// run runs the test program. If the kernel randomises addresses more than the thread sanitizer of gcc 12 supports, it
// runs the program again without randomisation.
func run(t *testing.T, env []string, program string, groups ...string) {
	t.Helper()
	cmd := exec.Command(program, groups...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("unexpected memory mapping")) {
		cmd = exec.Command("setarch", append([]string{"--addr-no-randomize", program}, groups...)...)
		cmd.Env = append(os.Environ(), env...)
		out, err = cmd.CombinedOutput()
	}
	if err != nil {
		t.Fatalf("run %s: %v\n%s", program, err, out)
	}
	if !strings.Contains(string(out), ": ok\n") {
		t.Fatalf("no group of tests ran:\n%s", out)
	}
	t.Logf("%s", out)
}

func TestExecutor(t *testing.T) {
	program := build(t, "-O2")
	dir := t.TempDir()
	env := []string{"DDLEMU_SOFT_STATS=" + filepath.Join(dir, "stats-%p.json")}
	run(t, env, program, "reduce") // launches nothing
	run(t, env, program)

	files, err := filepath.Glob(filepath.Join(dir, "stats-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("counters in %q, want one file: %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Launches uint64 `json:"launches"`
		ReduceNS uint64 `json:"reduce_ns"`
		CopyNS   uint64 `json:"copy_ns"`
		WaitNS   uint64 `json:"wait_ns"`
		Bytes    uint64 `json:"bytes"`
		Refused  uint64 `json:"refused"`
		ISA      string `json:"isa"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	if s.Launches == 0 || s.ReduceNS == 0 || s.CopyNS == 0 || s.WaitNS == 0 || s.Bytes == 0 || s.Refused == 0 ||
		s.ISA == "" {
		t.Errorf("a counter is zero: %s", text)
	}
}

func TestExecutorAddressSanitizer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute to compile")
	}
	run(t, nil, build(t, "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
}

func TestExecutorThreadSanitizer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute to compile")
	}
	run(t, nil, build(t, "-O1", "-fsanitize=thread"), "collective", "p2p", "launch")
}
