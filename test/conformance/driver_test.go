// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/world"
)

// limit is how long one case may take; the driver's own limits are shorter.
const limit = 150 * time.Second

// driver is the compiled driver.
var driver = sync.OnceValues(func() (string, error) {
	sources, err := filepath.Glob("driver/*.c")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(scratch, "conformance")
	args := append([]string{"-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", bin}, sources...)
	out, err := exec.Command("gcc", append(args, "-ldl", "-lpthread")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile the driver: %w\n%s", err, out)
	}
	return bin, nil
})

// scratch is a folder for the whole run.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "ddlemu-conformance-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

func mustDriver(t testing.TB) string {
	t.Helper()
	bin, err := driver()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// testCase is one case in one mode.
type testCase struct {
	name, mode string
	slow       bool
}

func (c testCase) String() string {
	if c.mode == "alone" {
		return c.name
	}
	return c.name + "/" + c.mode
}

// cases are all cases that the driver has.
func cases(t testing.TB) []testCase {
	t.Helper()
	out, err := exec.Command(mustDriver(t), "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []testCase
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		all = append(all, testCase{f[0], f[1], f[2] == "slow"})
	}
	return all
}

// outcome is the result of a case.
type outcome struct {
	word   string // PASS, FAIL or SKIP
	why    string
	stderr string // of the ranks, if the case failed
}

// drive runs one case with the plugin lib, on an ad-hoc fabric. The case fails if a file of the
// fabric remains afterwards.
func drive(t testing.TB, lib string, version int, c testCase, seed uint64, env ...string) outcome {
	t.Helper()
	dir := world.Scratch(t)
	// TORCHELASTIC_RUN_ID makes the ranks one job. With DDLEMU_JOB they would not print the verdict.
	o := driveOn(t, lib, version, c, seed,
		append([]string{"DDLEMU_DIR=" + dir, "DDLEMU_PROFILE=loopback", "TORCHELASTIC_RUN_ID=" + filepath.Base(dir)},
			env...)...)
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); o.word == "PASS" && len(files) > 0 {
		o = outcome{word: "FAIL", why: fmt.Sprintf("files remain: %v", files)}
	}
	return o
}

// driveOn runs one case on the fabric that env selects.
func driveOn(t testing.TB, lib string, version int, c testCase, seed uint64, env ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, mustDriver(t), lib, fmt.Sprint(version), c.mode, c.name, fmt.Sprint(seed))
	cmd.Env = append(built.Environ(), env...)
	o := world.Finish(t, cmd)
	word, why, _ := strings.Cut(strings.TrimSpace(o.Stdout), " ")
	if word != "PASS" && word != "SKIP" && word != "FAIL" {
		word, why = "FAIL", fmt.Sprintf("the driver ended with %v and printed %q", cmd.ProcessState, o.Stdout)
	}
	return outcome{word, why, o.Stderr}
}
