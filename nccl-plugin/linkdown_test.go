// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
)

// shape takes the links of a pattern down or up.
func shape(t *testing.T, file *state.File, pattern string, up bool) {
	t.Helper()
	if changed, err := fabricfile.Shape(file, pattern, configs.LinkPatch{Up: &up}); err != nil || len(changed) == 0 {
		t.Fatalf("shape %s: %d changed, %v", pattern, len(changed), err)
	}
}

// Links of this node that go down are told once, with the time until calls fail at this time scale.
func TestDownWatch(t *testing.T) {
	c, err := configs.Decode("test.yaml",
		[]byte(
			"name: t\nnodes: 3\ntransport: {kind: tcp, timeout: 15m24.6s}\ntime_scale: 64\nlink: {bandwidth: 1Gbps, latency: 1ms}\n"))
	if err != nil {
		t.Fatal(err)
	}
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	file := statetest.New(t, fab, "t")
	var told []string
	w := &downWatch{file: file, nics: 1, node: 0, limit: fabricfile.DownLimit(file, fab),
		warn: func(text string) { told = append(told, text) }}
	for _, step := range []struct {
		name, pattern string
		down          bool
		want          string
	}{
		{"nothing is down", "", false, ""},
		{"a link between other nodes", "node1>node2", true, ""},
		{"a link of this node", "node0>node1", true,
			"node0:node1 is down: a call that needs it fails after 16h26m14.4s"},
		{"nothing new", "", false, ""},
		{"one more, and one that is known", "node1>node0", true, "node1:node0 is down: "},
		{"up again", "node0:node1", false, ""},
		{"both at once", "node0:node1", true, "node0:node1 and 1 other link are down: a call that needs them fails "},
	} {
		if step.pattern != "" {
			shape(t, file, step.pattern, !step.down)
		}
		told = nil
		w.poll()
		w.poll()
		switch {
		case step.want == "" && len(told) > 0:
			t.Errorf("%s: %q", step.name, told)
		case step.want != "" && (len(told) != 1 || !strings.HasPrefix(told[0], step.want)):
			t.Errorf("%s: %q, want once %q", step.name, told, step.want)
		}
	}
}
