// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// Nodes cost time if it is asked for, known and can be played; the header says which of these is missing.
func TestNodeTime(t *testing.T) {
	const (
		noGPU   = "none (add --gpu)"
		notSaid = "none (add --node-time)"
		kernel  = "runs on the datapath kernel do not have it"
		unknown = "none (v100 has no section time"
		ofH100  = "that of h100-sxm"
	)
	for _, tc := range []struct {
		args    string
		replay  bool
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
		{args: "--profile ndr400 --gpu h100-sxm --node-time=off", model: true, ifKnown: true, want: notSaid},
		{args: "--profile ndr400 --gpu h100-sxm", env: "off", model: true, ifKnown: true, want: notSaid},
		{args: "--profile ndr400 --gpu v100", model: true, ifKnown: true, want: unknown},
		{args: "--profile ndr400 --gpu h100-sxm --node-time", model: true, costs: true, want: ofH100},
		{args: "--profile ndr400 --gpu h100-sxm --node-time", costs: true, want: ofH100},
		{args: "--profile ndr400 --gpu h100-sxm --node-time --clock real", costs: true, want: ofH100},
		{args: "--profile hgx-h100-ndr400 --time-scale 4", costs: true, want: ofH100},
		{args: "--profile eth10 --gpu h100-sxm --node-time --datapath kernel", want: "--node-time: " + kernel},
		{args: "--profile hgx-h100-ndr400 --transport tcp --datapath kernel", want: "none (" + kernel},
		{args: "--profile hgx-h100-ndr400", replay: true, want: notSaid},
		{args: "--profile hgx-h100-ndr400 --node-time", replay: true, costs: true, want: ofH100},
		{args: "--profile hgx-h100-ndr400", shared: true, want: "none (the fabric that is up does not have it: bring it up with --node-time)"},
		{args: "--profile gh200-ss11", want: "none (emulated runs do not know the rendezvous"},
		{args: "--profile hgx-h100-ndr400", model: true, costs: true, want: ofH100},
		{args: "--profile hgx-h100-ndr400", costs: true, want: ofH100},
		{args: "--profile hgx-h100-ndr400 --node-time=off", model: true, want: notSaid},
		{args: "--profile hgx-h100-ndr400 --gpu v100", model: true, want: unknown},
		{args: "--profile hgx-h100-ndr400 --gpu v100 --node-time", model: true,
			want: "--node-time: v100 has no section time"},
		{args: "--profile hgx-h100-ndr400 --gpu v100", env: "on", model: true,
			want: "DDLEMU_NODE_TIME: v100 has no section time"},
	} {
		g := &cli.Global{Getenv: func(name string) string { return map[string]string{"DDLEMU_NODE_TIME": tc.env}[name] }}
		o := BenchOptions{onlyModel: tc.model, nodeTimeIfKnown: tc.ifKnown, nodeTimeIfAsked: tc.replay, Soft: true}
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
