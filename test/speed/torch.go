// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	torchPrograms = "test/torch/testdata"
	torchPython   = "DDLEMU_TEST_TORCH_PYTHON" // an interpreter that has PyTorch
	torchLimit    = 5 * time.Minute
)

// torchCalls compares a blocking all_reduce of PyTorch with the all_reduce of gloo, and with a loop in C on the same
// communicator: three turns in one process.
func (d *driver) torchCalls(ctx context.Context, build string) (*section, error) {
	loop := filepath.Join(d.dir, "loop.so")
	if out, err := exec.CommandContext(ctx, "gcc", "-O2", "-shared", "-fPIC", "-o", loop,
		filepath.Join(torchPrograms, "loop.c")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the loop in C: %w:\n%s", err, out)
	}
	s := newSection("A blocking all_reduce of PyTorch on the CPU, 2 ranks on 2 nodes, unshaped, median time in us",
		"NCCL", "floats", "ddlemu", "gloo", "in C", "ddlemu / gloo", "ddlemu - C")
	python := pythonWithTorch(ctx)
	if python == "" {
		s.note("SKIPPED: no PyTorch (apt-get install python3-torch, or set %s).", torchPython)
		return s, nil
	}
	for _, version := range []string{"2.22", "2.29"} {
		out, err := d.runTorch(ctx, build, version, python, loop)
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			var floats int
			var ours, gloo, inC float64
			if _, err := fmt.Sscan(lines.Text(), &floats, &ours, &gloo, &inC); err != nil {
				return nil, fmt.Errorf("read %q: %w", lines.Text(), err)
			}
			s.row(version, floats, fmt.Sprintf("%.0f", ours), fmt.Sprintf("%.0f", gloo), fmt.Sprintf("%.0f", inC),
				fmt.Sprintf("%.2f", ours/gloo), fmt.Sprintf("%.0f", ours-inC))
		}
	}
	return s, nil
}

// pythonWithTorch is the first interpreter that has PyTorch, "" if none has.
func pythonWithTorch(ctx context.Context) string {
	for _, python := range []string{os.Getenv(torchPython), "python3", "/usr/bin/python3"} {
		if python != "" && exec.CommandContext(ctx, python, "-c", "import torch.distributed").Run() == nil {
			return python
		}
	}
	return ""
}

// runTorch returns what overhead.py prints.
func (d *driver) runTorch(ctx context.Context, build, version, python, loop string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, torchLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(build, "bin", "ddlemu"), "run", "--profile", "loopback", "--nodes",
		"2", "--nccl", version, "--",
		python, filepath.Join(build, "torch", "ddlemu_torch", "launch.py"), "--nproc-per-node", "1",
		filepath.Join(torchPrograms, "overhead.py"), loop)
	cmd.Env = append(os.Environ(), "DDLEMU_DIR="+d.dir, "OMP_NUM_THREADS=1")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s: %w:\n%s%s", python, err, out, exit.Stderr)
	}
	return out, err
}
