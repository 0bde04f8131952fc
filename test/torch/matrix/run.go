// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed drivers
var drivers embed.FS

// examples are the tests of test/torch that run docs/examples/torch.
const examples = "Example|Parallelism|TooOld"

// goTests returns a function that runs tests of test/torch, which the arguments of `go test` choose. The examples train
// with both numbers of ranks.
func goTests(args ...string) func(context.Context, *lane, line, command) (got, gloo map[string]result, err error) {
	return func(ctx context.Context, l *lane, line line, c command) (got, _ map[string]result, err error) {
		env := []string{"DDLEMU_TEST_TORCH_PYTHON=" + line.environment.python, "DDLEMU_TEST_NCCL=" + line.nccl,
			"DDLEMU_TEST_TORCH_RANKS=2 4"}
		command := append([]string{"go", "test", "-count=1", "-json", "-timeout", "60m"}, args...)
		out, err := c.run(ctx, l.repo, env, append(command, "./test/torch"))
		return readGoTest(out), nil, ignoreExit(err)
	}
}

// distributedTest runs the tests that PyTorch itself brings for backends, on 2 ranks.
func distributedTest(ctx context.Context, _ *lane, _ line, c command) (got, _ map[string]result, err error) {
	dir, err := os.MkdirTemp("", "distributed_test")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	if err := writeDriver(dir, "test_driver.py"); err != nil {
		return nil, nil, err
	}
	for _, folder := range []string{"barrier", "test_dir"} { // the tests ask for them
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			return nil, nil, err
		}
	}
	env := []string{"BACKEND=ddlemu", "WORLD_SIZE=2", "TEMP_DIR=" + dir,
		"INIT_METHOD=file://" + filepath.Join(dir, "shared")}
	got, err = c.pytest(ctx, dir, env, func(args ...string) []string { return c.emulated(2, "", args...) },
		"-k", "not cuda and not gpu", "test_driver.py")
	return got, nil, err
}

// fileLimit is the longest time of a file of PyTorch's tests.
const fileLimit = 30 * time.Minute

// pytorchFiles are tests that come with the source of PyTorch 2.6.
var pytorchFiles = []string{"test_device_mesh.py", "tensor/parallel/test_tp_style.py",
	"checkpoint/test_dtensor_checkpoint.py",
	"test_c10d_object_collectives.py"}

// pytorchTests runs tests that name gloo, with gloo and with this backend in its place.
func pytorchTests(ctx context.Context, l *lane, line line, c command) (got, gloo map[string]result, err error) {
	dir, err := l.pytorchSource(ctx, "trixie")
	if err != nil {
		return nil, nil, err
	}
	plain := func(args ...string) []string { return append([]string{line.environment.python}, args...) }
	emulated := func(args ...string) []string { return c.emulated(4, "gloo,nccl", args...) }
	got, gloo = map[string]result{}, map[string]result{}
	for _, file := range pytorchFiles { // each in a process of its own: a file that hangs leaves time to the others
		for results, launch := range map[*map[string]result]func(args ...string) []string{&gloo: plain,
			&got: emulated} {
			ctx, cancel := context.WithTimeout(ctx, fileLimit)
			ended, err := c.pytest(ctx, dir, nil, launch, file)
			cancel()
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", file, err)
			}
			maps.Copy(*results, ended)
		}
	}
	return got, gloo, nil
}

// accelerateScripts runs the test scripts of accelerate's wheel, with gloo and with this backend in its place.
func accelerateScripts(ctx context.Context, l *lane, line line, c command) (got, gloo map[string]result, err error) {
	if err := writeDriver(c.fabrics, "accelerate_driver.py"); err != nil {
		return nil, nil, err
	}
	got, gloo = map[string]result{}, map[string]result{}
	for _, name := range []string{"test_ops", "test_sync", "test_script"} {
		args := []string{filepath.Join(l.build, "torch", "ddlemu_torch", "launch.py"), "--nnodes", "1", "--nproc-per-node", "2",
			filepath.Join(c.fabrics, "accelerate_driver.py"), name}
		env := []string{"ACCELERATE_USE_CPU=true"}
		for results, command := range map[*map[string]result][]string{
			&gloo: append([]string{line.environment.python}, args...), &got: c.emulated(2, "gloo", args...)} {
			out, err := c.run(ctx, c.fabrics, env, command)
			if ignoreExit(err) != nil {
				return nil, nil, err
			}
			(*results)[name] = result{map[bool]string{true: "passed", false: "failed"}[err == nil], out}
		}
	}
	return got, gloo, nil
}

// pytest runs the tests of a file of pytest, and returns their results. launch returns how Python is started with
// arguments. If the time is over, the tests that have ended have results, and the one that has not is a failure.
func (c command) pytest(ctx context.Context, dir string, env []string, launch func(args ...string) []string,
	args ...string) (map[string]result, error) {
	file := filepath.Join(c.fabrics, "results.json")
	if err := os.RemoveAll(file); err != nil {
		return nil, err
	}
	if err := errors.Join(writeDriver(c.fabrics, "results_plugin.py"),
		writeDriver(c.fabrics, "forked_ranks_plugin.py")); err != nil {
		return nil, err
	}
	env = append(env, "RESULTS="+file, "PYTHONPATH="+c.fabrics)
	out, err := c.run(ctx, dir, env,
		launch(append([]string{"-m", "pytest", "-p", "no:cacheprovider", "-p", "results_plugin",
			"-p", "forked_ranks_plugin", "-v"}, args...)...))
	content, readErr := os.ReadFile(file)
	if readErr != nil {
		return nil, fmt.Errorf("pytest wrote no results (%w):\n%s", errors.Join(readErr, ignoreExit(err)), tail(out))
	}
	results, readErr := readPytest(content)
	if err := ignoreExit(err); err != nil && readErr == nil {
		results["pytest"] = result{"failed", err.Error()} // such as that the time is over
	}
	return results, readErr
}

// ignoreExit returns nil for the error that a program ended with an exit status, as it does when a test fails.
func ignoreExit(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return nil
	}
	return err
}

func writeDriver(dir, name string) error {
	content, err := drivers.ReadFile("drivers/" + name)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), content, 0o644)
}
