// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// deepspeedRecipe starts a program with DeepSpeed's launcher and a hostfile, as on two machines: pdsh reaches the nodes of
// a kernel fabric through `ddlemu ssh`.
func deepspeedRecipe(ctx context.Context, _ *lane, line line, c command) (got, _ map[string]result, err error) {
	// Its setup needs the torch that is there. In an environment of its own it would download another one.
	if _, err := output(ctx, line.environment.python, "-m", "pip", "install", "-q", "--no-build-isolation", "deepspeed"); err != nil {
		return nil, nil, err
	}
	if err := writeDriver(c.fabrics, "deepspeed_driver.py"); err != nil {
		return nil, nil, err
	}
	bin := filepath.Join(c.fabrics, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return nil, nil, err
	}
	if err := os.Symlink(c.ddlemu, filepath.Join(bin, "ssh")); err != nil {
		return nil, nil, err
	}
	path := strings.Join([]string{bin, filepath.Dir(line.environment.python), filepath.Dir(c.ddlemu), os.Getenv("PATH")}, ":")
	env := []string{"PATH=" + path, "PDSH_RCMD_TYPE=ssh", "DS_BUILD_OPS=0"}
	got = map[string]result{}
	for name, slots := range map[string]int{"2": 1, "2x2": 2} {
		hosts := filepath.Join(c.fabrics, "hosts."+name)
		if err := os.WriteFile(hosts, fmt.Appendf(nil, "node0 slots=%d\nnode1 slots=%[1]d\n", slots), 0o644); err != nil {
			return nil, nil, err
		}
		out, err := c.run(ctx, c.fabrics, env, []string{c.ddlemu, "run", "--nccl", c.line.nccl, "--profile", "eth10", "--nodes", "2",
			"--gpus-per-node", fmt.Sprint(slots), "--datapath", "kernel", "--", c.ddlemu, "exec", "node0", "--",
			"deepspeed", "-H", hosts, "deepspeed_driver.py"})
		if ignoreExit(err) != nil {
			return nil, nil, err
		}
		got[name] = judgeRecipe(out, slots)
	}
	return got, nil, nil
}

// judgeRecipe wants the line of each rank: `[node1-0] is OK (global rank: 1/2)`. The exit status is that of the verdict
// too, which on the kernel datapath is also about the host.
func judgeRecipe(out string, slots int) result {
	for rank := range 2 * slots {
		line := fmt.Sprintf("[node%d-%d] is OK (global rank: %d/%d)", rank/slots, rank%slots, rank, 2*slots)
		if !strings.Contains(out, line) {
			return result{"failed", out + "\nno line " + line}
		}
	}
	return result{"passed", out}
}
