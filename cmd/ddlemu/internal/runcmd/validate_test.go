// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/run/bench/validate"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
)

func TestPrintValidation(t *testing.T) {
	r := &validate.Report{
		Name: "x.csv", System: "two boxes", Profile: "t4-efa", NCCL: "2.22.3", CUDA: "soft", Notes: []string{"a note"},
		Lines: []validate.Line{
			{Size: 4, Published: 65.7, Expected: 66, Emulated: 66.119, Error: 0.64, Limit: 15, Within: true},
			{Size: 16 << 20, Published: 5966.3, Expected: 6500, Error: 8.94, Limit: 5},
		},
		LeftOut: []validate.LeftOut{{Size: 8, Reason: "a"}, {Size: 16, Reason: "a"}, {Size: 32, Reason: "b"}},
		Verdict: "INVALID", Conclusion: verdict.New(nil),
	}
	r.Conclusion.Add(verdict.Finding{Cause: verdict.CauseHost, Text: "late"})
	var got strings.Builder
	if err := printValidation(&got, r, "-v"); err != nil {
		t.Fatal(err)
	}
	const want = `# x.csv: two boxes
# profile t4-efa  NCCL 2.22.3  CUDA soft
# a note

    size  published us  expected us  emulated us  error %  limit %
       4         65.70        66.00        66.12     +0.6       15
16777216       5966.30      6500.00            -     +8.9        5  !

# 8 to 16 bytes left out: a
# 32 bytes left out: b
# 1 of 2 rows are within their limits
# host: late
verdict: INVALID
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// Ranks and nodes are the table's, unless a flag says something else.
func TestValidateTakesRanksAndNodesFromTheTable(t *testing.T) {
	for _, tc := range []struct {
		fabric       string
		args         []string
		ranks, nodes string
	}{
		{"", nil, "16", "2"},
		{"", []string{"--nodes", "4"}, "16", "4"},
		{"up", nil, "0", ""},
	} {
		var o validateOptions
		g := &cli.Global{}
		flags := pflag.NewFlagSet("validate", pflag.ContinueOnError)
		o.AddFlags(g, flags)
		if err := flags.Parse(tc.args); err != nil {
			t.Fatal(err)
		}
		g.Fabric = tc.fabric
		if err := o.place(g, &validate.Table{Ranks: 16, Nodes: 2}); err != nil {
			t.Fatal(err)
		}
		if got := [2]string{flags.Lookup("ranks").Value.String(),
			flags.Lookup("nodes").Value.String()}; got != [2]string{tc.ranks, tc.nodes} {
			t.Errorf("fabric %q, %q: ranks and nodes %q", tc.fabric, tc.args, got)
		}
	}
}
