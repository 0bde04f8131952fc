// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

func TestPrintValidation(t *testing.T) {
	r := &validate.Report{
		Name: "x.csv", System: "two boxes", Profile: "t4-efa", NCCL: "2.22.3", CUDA: "soft", Notes: []string{"a note"},
		Lines: []validate.Line{
			{Size: 4, Published: 65.7, Expected: 66, Emulated: 66.119, Error: 0.64, Limit: 15, Within: true},
			{Size: 16 << 20, Published: 5966.3, Expected: 6500, Error: 8.94, Limit: 5},
		},
		LeftOut: []tables.LeftOut{{Size: 8, Reason: "a"}, {Size: 16, Reason: "a"}, {Size: 32, Reason: "b"}},
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

// What the table says of its cluster is used, unless a flag says something else.
func TestValidateTakesTheClusterFromTheTable(t *testing.T) {
	table := tables.Table{Ranks: 16, Nodes: 2, Cluster: tables.Cluster{GPU: "a100-sxm", NVLink: "mesh",
		GPUsPerNode: 8, NICsPerNode: 4, Fabric: "ss11-200", CPU: "amd", NCCL: "2.27.3"}}
	names := []string{"ranks", "nodes", "nics-per-node", "gpu", "nvlink", "nvlink-domain", "cpu", "nccl"}
	for _, tc := range []struct {
		fabric  string
		args    []string
		profile string
		want    string
	}{
		{"", nil, "ss11-200", "16 2 4 a100-sxm mesh 8 amd 2.29"},
		{"", []string{"--nodes", "4", "--profile", "eth1", "--nccl", "2.22"}, "eth1", "16 4 4 a100-sxm mesh 8 amd 2.22"},
		{"", []string{"--gpu", "l40s", "--set", "nics_per_node=1"}, "ss11-200", "16 2 1 l40s   amd 2.29"},
		{"", []string{"--model"}, "a100x4-ss11", "16 2 4 a100-sxm mesh 8 amd 2.29"},
		{"", []string{"--model", "--set=node_time=off"}, "ss11-200", "16 2 4 a100-sxm mesh 8 amd 2.29"},
		{"", []string{"--model", "--gpu", "l40s"}, "ss11-200", "16 2 4 l40s   amd 2.29"},
		{"", []string{"-F", "x.yaml"}, "", "16 2  a100-sxm mesh 8 amd 2.29"},
		{"up", nil, "", "0       2.29"},
	} {
		var o validateOptions
		g := &cli.Global{Getenv: func(string) string { return "" }}
		flags := pflag.NewFlagSet("validate", pflag.ContinueOnError)
		o.AddFlags(g, flags)
		if err := flags.Parse(append(tc.args, "--soft-cuda")); err != nil {
			t.Fatal(err)
		}
		g.Fabric = tc.fabric
		if err := o.place(g, &table); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range names {
			got = append(got, flags.Lookup(name).Value.String())
		}
		if got := strings.Join(got, " "); got != tc.want || o.Profile != tc.profile {
			t.Errorf("fabric %q, %q: %s on %q, want %s on %q", tc.fabric, tc.args, got, o.Profile, tc.want, tc.profile)
		}
	}
	for _, tc := range []struct {
		cluster tables.Cluster
		want    string
	}{
		{tables.Cluster{Fabric: "two ropes"}, `the table's fabric is "two ropes", for which there is no profile`},
	} {
		var o validateOptions
		g := &cli.Global{}
		o.AddFlags(g, pflag.NewFlagSet("validate", pflag.ContinueOnError))
		err := o.place(g, &tables.Table{Ranks: 8, Nodes: 2, Cluster: tc.cluster})
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %s", tc.cluster, err, tc.want)
		}
	}
}

// In an NVLink domain of all nodes nothing crosses the links of a fabric, so the table needs none. Only one version of
// NCCL decides for it.
func TestValidateTakesTheDomainFromTheTable(t *testing.T) {
	for _, tc := range []struct {
		cluster tables.Cluster
		want    string
	}{
		{tables.Cluster{NVLinkDomain: 16, NCCL: "2.23.4"}, "loopback 16 2.29"},
		{tables.Cluster{NVLinkDomain: 8, NCCL: "2.23.4"}, " 8 2.29"}, // two domains, and no word about the links between
		{tables.Cluster{NVLinkDomain: 8, Fabric: "ndr400", NCCL: "2.30.1"}, "ndr400 8 2.29"},
		{tables.Cluster{Fabric: "ndr400", NCCL: "2.23.4"}, "ndr400 4 2.29"},
		{tables.Cluster{NVLinkDomain: 4, Fabric: "ndr400", NCCL: "2.23.4"}, "ndr400 4 2.29"},
		{tables.Cluster{GPU: "h100-sxm", NVLinkDomain: 4, Fabric: "ndr400", NCCL: "2.20.3"}, "ndr400 4 2.22"},
		{tables.Cluster{GPU: "h100-sxm", NVLinkDomain: 8, Fabric: "ndr400", NCCL: "2.20.3"}, "ndr400 8 2.29"},
	} {
		var o validateOptions
		g := &cli.Global{}
		o.AddFlags(g, pflag.NewFlagSet("validate", pflag.ContinueOnError))
		if tc.cluster.GPU == "" {
			tc.cluster.GPU = "gb200"
		}
		tc.cluster.GPUsPerNode, o.Soft = 4, true
		if err := o.place(g, &tables.Table{Ranks: 16, Nodes: 4, Cluster: tc.cluster}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join([]string{o.Profile, o.Flags.Lookup("nvlink-domain").Value.String(), o.NCCL}, " "); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.cluster, got, tc.want)
		}
	}
}
