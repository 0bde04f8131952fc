// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
)

var subnet = netip.MustParsePrefix("10.77.0.0/16")

func TestNewPlan(t *testing.T) {
	p, err := NewPlan("/dev/shm/ddlemu-0", "lab", 3, 2, subnet)
	if err != nil {
		t.Fatal(err)
	}
	nic := p.Nodes[2].NICs[1]
	if nic.Number != 5 || nic.Name != "eth1" || nic.Port != "node2.1" || nic.Addr4.String() != "10.77.1.3" ||
		nic.MAC.String() != "02:dd:1e:01:00:05" || !p.ULA.Contains(nic.Addr6) {
		t.Errorf("%+v", nic)
	}
	if n := p.Nodes[2]; n.Name != "node2" || !strings.HasSuffix(n.Namespace, "-lab-node2") ||
		!strings.HasSuffix(p.Switch, "-lab-switch") {
		t.Errorf("%+v, switch %s", n, p.Switch)
	}
	want := "10.77.0.3\tnode2\n"
	if h := p.Hosts(); !strings.Contains(h, want) || !strings.Contains(h, "10.77.1.3\tnode2-eth1\n") ||
		!strings.Contains(h, "\tnode2-eth1-ipv6\n") {
		t.Errorf("hosts:\n%s", h)
	}
}

func TestNewPlanRefuses(t *testing.T) {
	for _, c := range []struct {
		nodes  int
		subnet string
		want   string
	}{
		{configs.MaxKernelNodes + 1, "10.77.0.0/16", "255 nodes: the kernel datapath has addresses for 254"},
		{2, "10.77.0.0/24", "must be an IPv4 network of 16 bits"},
		{2, "10.77.1.0/16", "must be an IPv4 network of 16 bits"},
		{2, "fd00::/16", "must be an IPv4 network of 16 bits"},
	} {
		if _, err := NewPlan("/d", "lab", c.nodes, 1, netip.MustParsePrefix(c.subnet)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%d nodes in %s: %v, want %s", c.nodes, c.subnet, err, c.want)
		}
	}
}

// Names and addresses of any fabric are unique, have a permitted length, and identify the fabric or the NIC.
func TestPlanIsUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nics := rapid.IntRange(1, 32).Draw(t, "nics")
		nodes := rapid.IntRange(1, 256/nics).Draw(t, "nodes")
		if nodes > 254 {
			nodes = 254
		}
		name := rapid.StringMatching(`[a-z][a-z0-9.-]{0,20}`).Draw(t, "name")
		p, err := NewPlan("/d", name, nodes, nics, subnet)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		addUnique := func(s string) {
			if seen[s] {
				t.Fatalf("%s is used twice", s)
			}
			seen[s] = true
		}
		addUnique(p.Switch)
		for _, n := range p.Nodes {
			addUnique(n.Namespace)
			if f, ok := FabricOf("/d", n.Namespace); !ok || f != name {
				t.Fatalf("%s is of fabric %q, %v", n.Namespace, f, ok)
			}
			for _, nic := range n.NICs {
				addUnique(nic.Port)
				addUnique(nic.MAC.String())
				addUnique(nic.Addr4.String())
				addUnique(nic.Addr6.String())
				if len(nic.Port) > 15 || !subnet.Contains(nic.Addr4) || NICOfMAC(nic.MAC) != nic.Number {
					t.Fatalf("%+v", nic)
				}
			}
		}
	})
}

// Fabrics of the same name in two folders have different namespaces.
func TestFolders(t *testing.T) {
	if FabricPrefix("/a", "lab") == FabricPrefix("/b", "lab") {
		t.Error("two folders have the same names")
	}
	if f, ok := FabricOf("/b", FabricPrefix("/a", "lab")+"node0"); ok {
		t.Errorf("a namespace of another folder is taken for one of fabric %s", f)
	}
	if NICOfMAC([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) != -1 || NICOfMAC(nil) != -1 {
		t.Error("a MAC address that is not ddlemu's has a NIC")
	}
}
