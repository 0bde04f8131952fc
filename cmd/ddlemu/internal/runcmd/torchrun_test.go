// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// Only a torchrun of torch 1 with a new Python is explained.
func TestExplainTorchrun(t *testing.T) {
	for _, c := range []struct {
		name, command, torch string
		explained            bool
	}{
		{"script", "torchrun --nproc-per-node 2 x.py", "1.13.1", true},
		{"module", "python -m torch.distributed.run x.py", "1.13.1", true},
		{"torch 2", "torchrun x.py", "2.6.0", false},
		{"old Python", "torchrun x.py", "", false},
		{"another program", "other x.py", "1.13.1", false},
		{"another module", "python -m pytest", "1.13.1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
			python := filepath.Join(folder, "python")
			for name, text := range map[string]string{
				"python":   "#!/bin/sh\necho " + c.torch + "\n",
				"torchrun": "#!" + python + "\n", "other": "#!" + python + "\n",
			} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			var printed strings.Builder
			explainTorchrun(t.Context(), &cli.Global{Stderr: &printed}, strings.Fields(c.command))
			const next = " -m ddlemu_torch.launch --nproc-per-node N PROGRAM`\n"
			if got := printed.String(); strings.HasSuffix(got, next) != c.explained || !c.explained && got != "" {
				t.Errorf("it printed %q", got)
			}
		})
	}
}

// What is torchrun gets an agent for each node, unless the user says which agents there are.
func TestAgents(t *testing.T) {
	const static = "--nnodes 2 --node_rank 1 --master_addr M --master_port 7 "
	const elastic = "--nnodes 2 --node_rank 1 --rdzv_endpoint M:7 --rdzv_backend c10d --rdzv_id ddlemu-7 --rdzv_conf is_host=false "
	for _, c := range []struct {
		command string
		env     string
		want    string // the agent on node 1; "" if the command is started as it is
		ranks   int
	}{
		{"torchrun --nproc-per-node 2 x.py --nnodes 1", "", "torchrun --nproc-per-node 2 " + static + "x.py --nnodes 1", 2},
		{"/a/torchrun --nproc_per_node=4 -m x -v", "", "/a/torchrun --nproc_per_node=4 -m " + static + "x -v", 4},
		{"torchrun --nproc 3 x.py", "", "torchrun --nproc 3 " + static + "x.py", 3},
		{"torchrun x.py", "", "torchrun " + static + "x.py", 1},
		{"torchrun x.py", "PET_NPROC_PER_NODE=5", "torchrun " + static + "x.py", 5},
		{"torchrun --nproc-per-node gpu -- x.py", "", "torchrun --nproc-per-node gpu " + static + "-- x.py", 0},
		{"python3 -u -W ignore -m torch.distributed.run --nproc-per-node 2 x.py", "",
			"python3 -u -W ignore -m torch.distributed.run --nproc-per-node 2 " + static + "x.py", 2},
		{"python -m torch.distributed.launch --use_env x.py", "",
			"python -m torch.distributed.launch --use_env " + static + "x.py", 1},
		{"python -m ddlemu_torch.launch --nproc-per-node 2 x.py", "", "python -m ddlemu_torch.launch --nproc-per-node 2 " +
			strings.ReplaceAll(static, "_", "-") + "x.py", 2},
		{"env -u X A=1 timeout 5 python /v/bin/torchrun x.py", "", "env -u X A=1 timeout 5 python /v/bin/torchrun " + static +
			"x.py", 1},
		{"torchrun --master-port 9 --master_addr=N x.py", "",
			"torchrun --master-port 9 --master_addr=N --nnodes 2 --node_rank 1 x.py", 1},
		{"torchrun --max-restarts 2 x.py", "", "torchrun --max-restarts 2 " + elastic + "x.py", 1},
		{"torchrun --max_restarts=0 x.py", "", "torchrun --max_restarts=0 " + static + "x.py", 1},
		{"torchrun --rdzv-backend c10d --rdzv-endpoint localhost:0 x.py", "",
			"torchrun --rdzv-backend c10d --rdzv-endpoint localhost:0 " + strings.Replace(elastic, "--rdzv_backend c10d ", "", 1) +
				"x.py", 1},
		{"torchrun --rdzv_endpoint h:5 --rdzv_backend c10d x.py", "",
			"torchrun --rdzv_endpoint h:5 --rdzv_backend c10d --nnodes 2 --node_rank 1 x.py", 1},
		{"torchrun --nnodes 1 --nproc-per-node 2 x.py", "", "", 0},
		{"torchrun --nn=2 x.py", "", "", 0},
		{"torchrun --standalone --nproc-per-node 2 x.py", "", "", 0},
		{"torchrun --node_rank 0 x.py", "", "", 0},
		{"torchrun x.py", "PET_NNODES=2", "", 0},
		{"mpirun -n 2 torchrun x.py", "", "", 0},
		{"sh -c torchrun", "", "", 0},
		{"python train.py torchrun", "", "", 0},
		{"python -m pytest torchrun", "", "", 0},
		{"python -c torchrun", "", "", 0},
	} {
		name, value, _ := strings.Cut(c.env, "=")
		got := parseTorchrun(strings.Fields(c.command), func(n string) string {
			if n == name {
				return value
			}
			return ""
		})
		text := ""
		if got != nil && !got.explicit {
			text = strings.Join(got.agent(1, 2, "M", 7), " ")
		}
		if text != c.want || c.want != "" && got.ranks() != c.ranks {
			t.Errorf("%s %s: got %q, want %q with %d ranks each", c.env, c.command, text, c.want, c.ranks)
		}
	}
}
