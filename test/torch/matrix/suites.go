// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// lineLimit is the longest time of a line. Each takes at most a quarter of an hour on two quiet cores.
const lineLimit = 90 * time.Minute

// suite is a group of tests.
type suite struct {
	name         string
	environments *regexp.Regexp // in which it runs
	everyNCCL    bool           // it runs with every version of NCCL, and not only with the first
	secondNCCL   string         // the environment in which it runs with the second version too
	// tests runs the tests. With gloo the reference is what they do with PyTorch's own backend gloo; it may be nil.
	tests func(ctx context.Context, l *lane, line line, c command) (got, gloo map[string]result, err error)
}

var suites = []suite{
	{name: "examples", environments: regexp.MustCompile("."), everyNCCL: true, tests: goTests("-run", examples)},
	{name: "test-torch", environments: regexp.MustCompile("."), everyNCCL: true, tests: goTests("-skip", examples)},
	{name: "distributed_test", environments: regexp.MustCompile("."), secondNCCL: "sid", tests: distributedTest},
	{name: "pytorch-2.6", environments: regexp.MustCompile("^trixie$"), tests: pytorchTests},
	{name: "accelerate", environments: regexp.MustCompile("^pypi$"), tests: accelerateScripts},
}

// outcome is how a line ended.
type outcome struct {
	passed, failed, skipped int
	wrong                   []string // failures that are not expected, and what else is wrong
	took                    time.Duration
	err                     error
}

// run runs the tests and judges them.
func (s suite) run(ctx context.Context, l *lane, line line) outcome {
	ctx, cancel := context.WithTimeout(ctx, lineLimit)
	defer cancel()
	start := time.Now()
	want, err := expected(s.name, line.environment.name)
	if err != nil {
		return outcome{err: err}
	}
	c, err := newCommand(l, line)
	if err != nil {
		return outcome{err: err}
	}
	defer os.RemoveAll(c.fabrics)
	got, gloo, err := s.tests(ctx, l, line, c)
	if err == nil && len(got) == 0 {
		err = errors.New("no test ran")
	}
	o := outcome{err: err, wrong: judge(got, want, gloo), took: time.Since(start)}
	for _, r := range got {
		switch r.state {
		case "passed":
			o.passed++
		case "failed":
			o.failed++
		default:
			o.skipped++
		}
	}
	return o
}

// command runs programs, and writes what they print to a file.
type command struct {
	log     string
	fabrics string
	line    line
	ddlemu  string
}

func newCommand(l *lane, line line) (command, error) {
	results := filepath.Join(l.cache, "results")
	if err := os.MkdirAll(results, 0o755); err != nil {
		return command{}, err
	}
	fabrics, err := os.MkdirTemp("", "torch-matrix")
	if err != nil {
		return command{}, err
	}
	log := filepath.Join(results, strings.ReplaceAll(line.name(), " ", "-")+".log")
	return command{log, fabrics, line, filepath.Join(l.build, "bin", "ddlemu")}, os.WriteFile(log, nil, 0o644)
}

// emulated returns the arguments that run a program on an emulated fabric.
func (c command) emulated(nodes int, alias string, args ...string) []string {
	command := []string{c.ddlemu, "run", "--nccl", c.line.nccl, "--profile", "loopback", "--nodes", fmt.Sprint(nodes)}
	if alias != "" {
		command = append(command, "--torch-alias", alias)
	}
	return append(append(command, "--", c.line.environment.python), args...)
}

// run runs a program in a folder, with variables besides the machine's. It returns what it printed.
func (c command) run(ctx context.Context, dir string, env []string, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	// gloo asks a name server for this host's address, which may take 5 s for each group, unless it has the interface.
	cmd.Env = append(os.Environ(), "DDLEMU_DIR="+c.fabrics, "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1",
		"GLOO_SOCKET_IFNAME=lo")
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	log, err := os.OpenFile(c.log, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	defer log.Close()
	if _, err := fmt.Fprintf(log, "$ %s\n", strings.Join(args, " ")); err != nil {
		return "", err
	}
	var out bytes.Buffer
	both := io.MultiWriter(log, &out) // the log shows how far a long line has come
	cmd.Stdout, cmd.Stderr = both, both
	err = cmd.Run()
	if ctx.Err() != nil {
		return out.String(), ctx.Err()
	}
	return out.String(), err
}
