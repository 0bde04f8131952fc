// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// explainTorchrun says what to use if args is a torchrun that cannot start a rank: that of torch 1 with Python 3.11 or
// later, as Debian 12 has it. There an enumeration no longer lists its flag of value zero, which torchrun looks for.
func explainTorchrun(ctx context.Context, g *cli.Global, args []string) {
	python := pythonOf(args)
	if python == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	const program = "import sys, importlib.metadata as m; print(m.version('torch') if sys.version_info >= (3, 11) " +
		"else '')"
	out, err := exec.CommandContext(ctx, python, "-c", program).Output()
	if version := strings.TrimSpace(string(out)); err == nil && strings.HasPrefix(version, "1.") {
		fmt.Fprintf(g.Stderr, "ddlemu: torchrun of torch %s does not work with this version of Python: "+
			"use `%s -m ddlemu_torch.launch --nproc-per-node N PROGRAM`\n", version, python)
	}
}

// pythonOf returns the interpreter that runs torchrun, or "" if args is not torchrun.
func pythonOf(args []string) string {
	if i := slices.Index(args, "-m"); i > 0 && i+1 < len(args) && args[i+1] == "torch.distributed.run" {
		return args[0]
	}
	if filepath.Base(args[0]) != "torchrun" {
		return ""
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	line, _ := bufio.NewReader(file).ReadString('\n') // without #! it is no script, and no interpreter is found
	python, found := strings.CutPrefix(strings.TrimSpace(line), "#!")
	if !found || strings.Contains(python, " ") {
		return ""
	}
	return python
}
