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
