// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bytes"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// Many rows are said before they are measured, unless the user has chosen the step.
func TestManyRows(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"-b", "8", "-e", "1G"}, "ddlemu: 1024 rows: without -f and -i each size is 1048576 bytes larger than " +
			"the one before, as with nccl-tests; -f 2 gives 28 rows\n"},
		{[]string{"-b", "0", "-e", "1G"}, "ddlemu: 1025 rows: without -f and -i each size is 1048576 bytes larger than " +
			"the one before, as with nccl-tests; -f 2 gives 31 rows\n"},
		{[]string{"-b", "8", "-e", "1G", "-f", "2"}, ""},
		{[]string{"-b", "8", "-e", "1G", "-i", "1M"}, ""},
		{[]string{"-b", "8", "-e", "64M"}, ""},
		{nil, ""},
	} {
		var o BenchOptions
		var out bytes.Buffer
		g := &cli.Global{Stderr: &out, Getenv: func(string) string { return "" }}
		fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
		o.AddFlags(g, fs)
		if err := fs.Parse(tc.args); err != nil {
			t.Fatal(err)
		}
		for range 2 { // said once
			if _, err := o.Bench(g, "allreduce"); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != tc.want {
			t.Errorf("%q: %q, want %q", tc.args, out.String(), tc.want)
		}
	}
}
