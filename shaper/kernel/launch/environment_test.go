// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

func TestMergeEnvironment(t *testing.T) {
	base := []string{"A=1", "B=2", "A=3", "C=4", "nonsense", "D="}
	got := MergeEnvironment(base, []string{"B=5", "C=", "B=6", "E=7"})
	slices.Sort(got)
	if want := []string{"A=3", "B=6", "D=", "E=7", "nonsense"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := MergeEnvironment(nil, nil); len(got) != 0 {
		t.Errorf("got %q of nothing", got)
	}
}

func TestInterfaceEnvironment(t *testing.T) {
	node := &netns.Node{NICs: []netns.NIC{{Name: "eth0"}}}
	for list, kept := range map[string]bool{"eth0": true, "eth": true, "=eth1": true, "^eth1": true, "eth0,eth1": true,
		"": false, "lo": false, "^docker0": false, "eth0,ib0": false} {
		want := []string{"NCCL_SOCKET_IFNAME=eth", "GLOO_SOCKET_IFNAME=eth0"}
		if kept {
			want = want[1:]
		}
		if got := InterfaceEnvironment([]string{"NCCL_SOCKET_IFNAME=lo", "NCCL_SOCKET_IFNAME=" + list},
			node); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}
