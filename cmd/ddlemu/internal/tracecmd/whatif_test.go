// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/whatif"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// What a change of links does not change has the cause that the fabric's nodes have.
func TestComputedNote(t *testing.T) {
	for timed, want := range map[bool]string{false: "as if it had computed", true: "launches, kernels"} {
		if note := computedNote(7, 2.5, timed); !strings.Contains(note, want) || !strings.Contains(note, "7 posts") ||
			!strings.Contains(note, "by 2.500 us together") {
			t.Errorf("timed nodes %v: %s", timed, note)
		}
	}
}

// A link that no message of the jobs that are played crosses is named, whether the file or the change sets it.
func TestUncrossedNotes(t *testing.T) {
	c, err := configs.Decode("test", []byte(`base: roce100
nodes: 4
topology: {kind: leaf-spine, leaves: 2, spines: 2, trunk: {latency: 1us}}
links: [{match: node3, bandwidth: 10Gbps}]
`))
	if err != nil {
		t.Fatal(err)
	}
	built, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	trace := &messages.Trace{
		Connections: []messages.Connection{
			{Flow: 1, Src: 0, Dst: 1}, {Flow: 2, Src: 0, Dst: 3}, {Job: 1, Flow: 3, Src: 2, Dst: 3},
		},
		Messages: []messages.Message{{Flow: 1}, {Job: 1, Flow: 3}},
	}
	for _, tc := range []struct {
		links   string
		without map[int]bool
		want    []string // how the notes begin
	}{
		{"node3, node2>node3", nil, nil},
		{"node0, node2>node3", map[int]bool{1: true}, []string{"links node2>node3: ", "links node3: "}},
		{"", map[int]bool{0: true}, nil},
		{"node0:node1", map[int]bool{0: true}, []string{"links node0:node1: "}},
	} {
		notes := uncrossedNotes(trace, &replay.Fabric{Fabric: built}, &whatif.Change{Without: tc.without}, tc.links)
		if !slices.EqualFunc(notes, tc.want, strings.HasPrefix) {
			t.Errorf("%q without %v: %q", tc.links, tc.without, notes)
		}
	}
}
