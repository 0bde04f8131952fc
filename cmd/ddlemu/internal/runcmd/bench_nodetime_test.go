// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// untimedKind is the file of a kind of GPU without times.
func untimedKind(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "untimed.yaml")
	err := os.WriteFile(file, []byte(`name: untimed
product: A GPU
compute_capability: 8.0
sms: 80
memory: 32G
pcie: {generation: 3, lanes: 16, gpus: 2}
cpu: {arch: x86_64, vendor: intel, gpus: 4}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Nodes cost time if it is asked for, known and can be played; the header says which of these is missing.
func TestNodeTime(t *testing.T) {
	const (
		noGPU   = "none (add --gpu KIND --set node_time=on)"
		notSaid = "none (add --set node_time=on)"
		kernel  = "runs on the datapath kernel do not have it"
		unknown = "none (untimed has no section time"
		ofH100  = "that of h100-sxm"
	)
	file := untimedKind(t)
	for _, tc := range []struct {
		args    string
		shared  bool
		env     string // DDLEMU_NODE_TIME
		model   bool
		ifKnown bool // as validate --model
		costs   bool
		want    string // the header, or an error
	}{
		{args: "--profile ndr400", model: true, want: noGPU},
		{args: "--profile ndr400", want: noGPU},
		{args: "--profile ndr400 --gpu h100-sxm", model: true, want: notSaid},
		{args: "--profile ndr400 --gpu h100-sxm", model: true, ifKnown: true, costs: true, want: ofH100},
		{args: "--profile ndr400 --gpu h100-sxm --set node_time=off", model: true, ifKnown: true, want: notSaid},
		{args: "--profile ndr400 --gpu h100-sxm", env: "off", model: true, ifKnown: true, want: notSaid},
		{args: "--profile ndr400 --gpu untimed.yaml", model: true, ifKnown: true, want: unknown},
		{args: "--profile ndr400 --gpu h100-sxm --set node_time=on", model: true, costs: true, want: ofH100},
		{args: "--profile ndr400 --gpu h100-sxm --set node_time=on", costs: true, want: ofH100},
		{args: "--profile ndr400 --gpu h100-sxm --set node_time=on --clock real", costs: true, want: ofH100},
		{args: "--profile hgx-h100-ndr400 --set time_scale=4", costs: true, want: ofH100},
		{args: "--profile eth10 --gpu h100-sxm --set node_time=on --set datapath=kernel", want: "--set node_time: " + kernel},
		{args: "--profile hgx-h100-ndr400 --set transport=tcp --set datapath=kernel", want: "none (" + kernel},
		{args: "--profile ndr400", shared: true,
			want: "none (bring the fabric up with --gpu KIND --set node_time=on: the fabric"},
		{args: "--profile eth10 --set datapath=kernel", want: "none (" + kernel},
		{args: "--profile eth10 --set datapath=kernel --gpu h100-sxm", want: "none (" + kernel},
		{args: "--profile hgx-h100-ndr400", shared: true, want: "none (bring the fabric up with --set node_time=on: the fabric"},
		{args: "--profile gh200-ss11", want: "none (emulated runs do not know the rendezvous"},
		{args: "--profile hgx-h100-ndr400", model: true, costs: true, want: ofH100},
		{args: "--profile hgx-h100-ndr400", costs: true, want: ofH100},
		{args: "--profile hgx-h100-ndr400 --set node_time=off", model: true, want: notSaid},
		{args: "--profile hgx-h100-ndr400 --gpu untimed.yaml", model: true, want: unknown},
		{args: "--profile hgx-h100-ndr400 --gpu untimed.yaml --set node_time=on", model: true,
			want: "--set node_time: untimed has no section time"},
		{args: "--profile hgx-h100-ndr400 --gpu untimed.yaml", env: "on", model: true,
			want: "DDLEMU_NODE_TIME: untimed has no section time"},
	} {
		g := &cli.Global{Getenv: func(name string) string { return map[string]string{"DDLEMU_NODE_TIME": tc.env}[name] }}
		o := BenchOptions{onlyModel: tc.model, nodeTimeIfKnown: tc.ifKnown, Soft: true}
		tc.args = strings.ReplaceAll(tc.args, "untimed.yaml", file)
		fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
		o.addFabricFlags(g, fs)
		if err := fs.Parse(strings.Fields(tc.args)); err != nil {
			t.Fatal(err)
		}
		cfg, err := o.fabric(g)
		if err != nil {
			t.Fatal(err)
		}
		text, err := o.setNodeTime(cfg, tc.shared)
		if err != nil {
			text = err.Error()
		}
		if !strings.HasPrefix(text, tc.want) || err == nil && (cfg.NodeTime != tc.costs || cfg.TimedNodes != (tc.costs && !tc.model)) {
			t.Errorf("%+v: %q, costs time %v", tc, text, cfg.NodeTime)
		}
	}
}
