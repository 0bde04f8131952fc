// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// Nodes of a file or a variable are known as such, so that a note can say that --ranks takes others.
func TestNodesFrom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "six.yaml")
	if err := os.WriteFile(file, []byte("base: eth1\nnodes: 6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args      []string
		env, want string
	}{
		{[]string{"-F", file}, "", file + ":2"},
		{[]string{"-F", file}, "3", "DDLEMU_NODES"},
		{[]string{"-F", file, "--nodes", "4"}, "3", ""},
		{[]string{"--profile", "eth1"}, "", ""},
	} {
		g := &cli.Global{Getenv: func(name string) string { return map[string]string{"DDLEMU_NODES": tc.env}[name] }}
		var o BenchOptions
		fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
		o.addFabricFlags(g, fs)
		if err := fs.Parse(tc.args); err != nil {
			t.Fatal(err)
		}
		if _, err := o.fabric(g); err != nil || o.nodesFrom != tc.want {
			t.Errorf("%v, variable %q: %q, %v; want %q", tc.args, tc.env, o.nodesFrom, err, tc.want)
		}
	}
}
