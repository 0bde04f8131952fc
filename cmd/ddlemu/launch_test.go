// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/runcmd"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

func TestNodeOf(t *testing.T) {
	p, err := netns.NewPlan("/d", "f", 3, 2, netip.MustParsePrefix("10.77.0.0/16"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"node0": 0, "node2": 2, "node2-eth1": 2, "node1-ipv6": 1, "node0-eth1-ipv6": 0, "10.77.0.2": 1, "10.77.1.3": 2,
		p.Nodes[1].NICs[1].Addr6.String(): 1,
		"node3":                           -1, "node2-eth2": -1, "node": -1, "": -1, "10.77.0.4": -1, "::1": -1,
		"node01": -1, "NODE1": -1,
	} {
		got, err := fabriccmd.NodeOf(p, name)
		if want < 0 && (err == nil || !strings.Contains(err.Error(), "it has node0 to node2")) || want >= 0 &&
			(err != nil || got != want) {
			t.Errorf("%q: got %d, %v; want %d", name, got, err, want)
		}
	}
}

func TestFill(t *testing.T) {
	got := strings.Join(runcmd.Fill([]string{"run", "--n={nodes}", "{node}{node}", "{master}:1", "{gpus}", "{Node}",
		"{}"}, 3, 8, 2), " ")
	if want := "run --n=8 33 node0:1 2 {Node} {}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOwnFlags(t *testing.T) {
	for _, c := range []struct{ args, rest, fabric, dir string }{
		{"node1 true", "node1 true", "", ""},
		{"--fabric f --dir=/d node1 --fabric x", "node1 --fabric x", "f", "/d"},
		{"-x --fabric f", "-x --fabric f", "", ""},
		{"-- --dir d", "-- --dir d", "", ""},
	} {
		g := newWorld(t).global()
		rest, help, err := fabriccmd.OwnFlags(g, strings.Fields(c.args))
		if strings.Join(rest, " ") != c.rest || help || err != nil || g.Fabric != c.fabric || g.Dir != c.dir {
			t.Errorf("%s: %q, %v, %v, fabric %q, dir %q", c.args, rest, help, err, g.Fabric, g.Dir)
		}
	}
	for _, args := range []string{"--fabric", "--json node1"} {
		if _, _, err := fabriccmd.OwnFlags(newWorld(t).global(), strings.Fields(args)); cli.ExitStatus(
			err) != cli.ExitInput {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, help, _ := fabriccmd.OwnFlags(newWorld(t).global(), []string{"--help"}); !help {
		t.Error("no help")
	}
}

func TestCalledSSH(t *testing.T) {
	for from, want := range map[string]string{"/bin/ddlemu ssh x": "ssh x", "ddlemu-ssh -x node1": "ssh -x node1",
		"/a/ssh node1": "ssh node1", "ddlemu": ""} {
		if got := strings.Join(arguments(strings.Fields(from)), " "); got != want {
			t.Errorf("%s: got %q, want %q", from, got, want)
		}
	}
}

// Names are coloured only on a terminal, and not with NO_COLOR.
func TestPrefix(t *testing.T) {
	w, p := newWorld(t), &runcmd.PerNode{Nodes: 11}
	if got := p.Prefix(w.global(), &w.out, 1); got != "node1  | " {
		t.Errorf("into a buffer: %q", got)
	}
	tty := terminal(t)
	if got := p.Prefix(w.global(), tty, 10); got != "\x1b[36mnode10 |\x1b[0m " {
		t.Errorf("on a terminal: %q", got)
	}
	w.env["NO_COLOR"] = "1"
	if got := p.Prefix(w.global(), tty, 10); got != "node10 | " {
		t.Errorf("with NO_COLOR: %q", got)
	}
}

// terminal is a new pseudo terminal.
func terminal(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return tty
}
