// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// logOf is a log of 4 ranks of so many nodes.
func logOf(t *testing.T, nodes int, product, start string) *tables.Table {
	t.Helper()
	var b strings.Builder
	b.WriteString("# nccl-tests version 2.17.8 nccl-headers=21805 nccl-library=21805\n# " + start +
		" minBytes 8 maxBytes 8\n")
	for r := range 4 {
		fmt.Fprintf(&b, "#  Rank  %d Group  0 Pid  9 on   n%d device  0 [0x1b] %s\n", r, r*nodes/4, product)
	}
	b.WriteString("8 2 float sum -1 5 0 0 0 6 0 0 0\n")
	log, err := tables.Read(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return log.Tables[0]
}

// A log says what flags need not say. What is not known of it is noted.
func TestPlaceOfLog(t *testing.T) {
	const h100, processes = "NVIDIA H100 80GB HBM3", "nThread 1 nGpus 1"
	for _, tc := range []struct {
		name, args     string
		nodes          int
		product, start string
		gpu, nccl      string
		wantNodes      string
		profile, note  string
		oneThread      bool
	}{
		{"nothing given", "--profile ndr400 --soft-cuda", 2, h100, processes, "h100-sxm", "2.22", "2", "ndr400", "", false},
		{"one node", "--soft-cuda", 1, h100, "nThread 1 nGpus 4", "h100-sxm", "2.22", "1", "loopback", "", true},
		{"all given", "--profile ndr400 --soft-cuda --gpu h200-sxm --nccl 2.29 --nodes 4", 2, h100, processes, "h200-sxm",
			"2.29", "4", "ndr400", "the log's GPUs are NVIDIA H100 80GB HBM3 (h100-sxm), the fabric's h200-sxm", false},
		{"another maker", "--profile ndr400 --soft-cuda", 2, "AMD Instinct MI300X", processes, "", "2.22", "2", "ndr400",
			"no kind of GPU is the log's, AMD Instinct MI300X", false},
		{"a kind whose times are estimated", "--profile ndr400 --soft-cuda", 2, "Tesla T4", processes, "t4", "2.22", "2",
			"ndr400", "", false},
		{"a card", "--profile ndr400 --soft-cuda", 2, "NVIDIA L40", processes, "", "2.22", "2", "ndr400",
			"such as l40s", false},
	} {
		g := &cli.Global{Getenv: func(string) string { return "" }}
		var o expectOptions
		fs := pflag.NewFlagSet("expect", pflag.ContinueOnError)
		o.AddFlags(g, fs)
		if err := fs.Parse(strings.Fields(tc.args)); err != nil {
			t.Fatal(err)
		}
		notes, err := o.place(g, logOf(t, tc.nodes, tc.product, tc.start))
		text := strings.Join(notes, "; ")
		if err != nil || !strings.Contains(text, tc.note) || tc.note == "" && text != "" {
			t.Errorf("%s: %v, notes %q", tc.name, err, text)
		}
		gpu := fs.Lookup("gpu").Value.String()
		if gpu != tc.gpu || o.NCCL != tc.nccl || fs.Lookup("nodes").Value.String() != tc.wantNodes ||
			o.Profile != tc.profile || o.oneThread != tc.oneThread || !o.nodeTimeIfKnown {
			t.Errorf("%s: GPU %q, NCCL %q, nodes %v, profile %q, %v", tc.name, gpu, o.NCCL, fs.Lookup("nodes").Value,
				o.Profile, o.oneThread)
		}
	}
}

// CSV says of its cluster what a table of validate says.
func TestPlaceOfCSV(t *testing.T) {
	file, err := tables.Read(strings.NewReader("# collective: all_reduce\n# ranks: 8\n# nodes: 2\n# gpu: a100-sxm\n" +
		"# nvlink: mesh\n# nics_per_node: 4\n# fabric: ss11-200\n# nccl: 2.27.3\n# launch: one-thread\nbytes,time_us\n4,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{"": "2 4 a100-sxm mesh 2.29 a100x4-ss11",
		"--profile eth1 --gpu l40s": "2 4 l40s  2.29 eth1"} {
		g := &cli.Global{Getenv: func(string) string { return "" }}
		var o expectOptions
		fs := pflag.NewFlagSet("expect", pflag.ContinueOnError)
		o.AddFlags(g, fs)
		if err := fs.Parse(strings.Fields("--soft-cuda " + args)); err != nil {
			t.Fatal(err)
		}
		notes, err := o.place(g, file.Tables[0])
		value := func(flag string) string { return fs.Lookup(flag).Value.String() }
		got := strings.Join([]string{value("nodes"), value("nics-per-node"), value("gpu"), value("nvlink"), o.NCCL,
			o.Profile}, " ")
		if err != nil || notes != nil || got != want || !o.oneThread || !o.nodeTimeIfKnown {
			t.Errorf("%q: %s, %q, %v, want %s", args, got, notes, err, want)
		}
	}
}

// What a table of a log says of its cluster is not for the next one; what the user gave is for all.
func TestPlaceOfTheNextTable(t *testing.T) {
	g := &cli.Global{Getenv: func(string) string { return "" }}
	var o expectOptions
	fs := pflag.NewFlagSet("expect", pflag.ContinueOnError)
	o.AddFlags(g, fs)
	if err := fs.Parse([]string{"--profile=ndr400", "--soft-cuda"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		nodes        int
		product, gpu string
	}{{2, "NVIDIA H200", "h200-sxm"}, {4, "NVIDIA B200", "b200"}, {2, "AMD Instinct MI300X", ""}} {
		next, err := o.forTable(g)
		if err != nil {
			t.Fatal(err)
		}
		notes, err := next.place(g, logOf(t, tc.nodes, tc.product, "nThread 1 nGpus 1"))
		if err != nil || (notes == nil) != (tc.gpu != "") {
			t.Fatalf("%v %q", err, notes)
		}
		if got := next.Flags.Lookup("nodes").Value.String(); got != fmt.Sprint(tc.nodes) || next.Profile != "ndr400" {
			t.Errorf("%s nodes of %s, want %d of ndr400", got, next.Profile, tc.nodes)
		}
		if got := next.Flags.Lookup("gpu").Value.String(); got != tc.gpu {
			t.Errorf("GPU %q, want %q", got, tc.gpu)
		}
	}
}

// Who does not want the time of nodes gets the decisions of GPUs without a kind.
func TestPlaceWithoutNodeTime(t *testing.T) {
	for _, tc := range []struct{ flag, env string }{{flag: "--set=node_time=false"}, {flag: "--set=node_time=off"},
		{env: "off"}} {
		g := &cli.Global{Getenv: func(name string) string { return map[string]string{"DDLEMU_NODE_TIME": tc.env}[name] }}
		var o expectOptions
		fs := pflag.NewFlagSet("expect", pflag.ContinueOnError)
		o.AddFlags(g, fs)
		if err := fs.Parse(strings.Fields("--profile=ndr400 --soft-cuda " + tc.flag)); err != nil {
			t.Fatal(err)
		}
		notes, err := o.place(g, logOf(t, 2, "NVIDIA H200", "nThread 1 nGpus 1"))
		if err != nil || notes != nil || o.nodeTimeIfKnown || fs.Changed("gpu") || !fs.Changed("nodes") {
			t.Errorf("%+v: %v %q %v, GPU %v", tc, err, notes, o.nodeTimeIfKnown, fs.Lookup("gpu").Value)
		}
	}
}
