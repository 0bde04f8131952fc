// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/test/needs"
)

// `dev` shapes an existing interface and restores it. A namespace of the test stands in for the host.
func TestDevice(t *testing.T) {
	ddlemu := newUser(t).Program
	host := fmt.Sprintf("ddlemu-test-%d", os.Getpid())
	if err := netns.Create(host); err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(host)
	in := func(args ...string) (string, error) {
		var b bytes.Buffer
		if args[0] != ddlemu {
			needs.Program(t, args[0])
		}
		err := netns.Do(host, func() error {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Stdout, cmd.Stderr = &b, &b
			return cmd.Run() // a child process is in the thread's namespace
		})
		return b.String(), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := in(args...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	must("ip", "link", "add", "eth9", "type", "veth", "peer", "name", "peer9")
	must("ip", "link", "set", "eth9", "up")
	before := must("tc", "qdisc", "show", "dev", "eth9") + must("ip", "-d", "link", "show", "eth9")
	if out := must(ddlemu, "dev", "eth9", "--bw", "100Mbps"); !strings.Contains(out, "eth9 is shaped: 100Mbps") {
		t.Errorf("dev --bw says %s", out)
	}
	// dev counts no framing, so the rate of tc is the rate of the link times (1500+14)/1500.
	if out := must("tc", "class", "show", "dev", "eth9"); !strings.Contains(out, "rate 100") {
		t.Errorf("classes: %s", out)
	}
	must(ddlemu, "dev", "eth9", "--bw", "50Mbps")
	if out := must("tc", "class", "show", "dev", "eth9"); !strings.Contains(out, "rate 50") ||
		strings.Contains(out, "rate 100") {
		t.Errorf("classes after a change: %s", out)
	}
	must(ddlemu, "dev", "eth9", "--restore")
	if after := must("tc", "qdisc", "show", "dev", "eth9") +
		must("ip", "-d", "link", "show", "eth9"); strings.ReplaceAll(after, " qlen 1000",
		"") != strings.ReplaceAll(before, " qlen 1000", "") {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
	must("tc", "qdisc", "add", "dev", "eth9", "root", "handle", "7:", "bfifo", "limit", "10000")
	if out, err := in(ddlemu, "dev", "eth9", "--bw", "100Mbps"); err == nil ||
		!strings.Contains(out, "bfifo 7:0: remove that first (tc qdisc del dev eth9 root)") {
		t.Errorf("with another program's qdisc: %v: %s", err, out)
	}
	if out, err := in(ddlemu, "dev", "nothere", "--bw", "100Mbps"); err == nil ||
		!strings.Contains(out, "interface nothere: ") {
		t.Errorf("no such interface: %v: %s", err, out)
	}
}
