// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/intercept/capture/extcap"
	"github.com/ddlemu/ddlemu/test/needs"
)

// installedTshark runs tshark with a home folder of its own, in which ddlemu is installed.
func (w *user) installedTshark(home string, args ...string) *exec.Cmd {
	w.Helper()
	cmd := exec.Command(needs.Optional(w, "tshark"), args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=")
	return cmd
}

// tshark shows the links as interfaces once ddlemu is installed, captures on one of them, and no longer shows them
// once it is removed.
func TestTsharkCapturesLinks(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--nodes", "2", "--lat", "0s", "--set", "shaper=htb", "--name", "lab")
	home := t.TempDir()
	install := func(flag string) string {
		cmd := w.command("extcap", flag)
		cmd.Env = append(cmd.Env, "HOME="+home, "XDG_CONFIG_HOME=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	list := func() string {
		out, err := w.installedTshark(home, "-D").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const link = "ddlemu:lab:node0:node1"
	if strings.Contains(list(), link) {
		t.Fatal("tshark knows the link before ddlemu is installed")
	}
	install("--install")
	if out := list(); !strings.Contains(out, link+" (Link from node0 to node1, fabric lab)") ||
		strings.Count(out, "ddlemu:lab:") != 2 {
		t.Fatalf("tshark lists\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "x.pcapng")
	cmd := w.installedTshark(home, "-i", link, "-c", "5", "-w", file)
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for running := true; running; {
		// The capture begins at some time.
		w.run("exec", "node0", "--", "ping", "-qc", "2", "-i", "0.05", "node1")
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
			running = false
		default:
		}
	}
	timeout.Stop()
	c := &capturing{user: w, file: file}
	if n := c.matching("icmp.type == 8 || arp || icmpv6"); n != 5 {
		t.Errorf("%d packets of node0, want 5", n)
	}
	if n := c.matching("_ws.malformed"); n != 0 {
		t.Errorf("%d malformed packets", n)
	}
	if install("--uninstall"); strings.Contains(list(), link) {
		t.Error("tshark still lists the link")
	}
}

// toolbar is Wireshark's side of the control pipes.
type toolbar struct {
	*testing.T
	to       *os.File
	messages chan extcap.Message
}

// send sends a message of a control.
func (b *toolbar) send(control uint8, command extcap.Command, payload string) {
	b.Helper()
	m := extcap.Message{Control: control, Command: command, Payload: []byte(payload)}
	if _, err := b.to.Write(m.Append(nil)); err != nil {
		b.Fatal(err)
	}
}

// expect waits for a message of a control whose payload contains a text.
func (b *toolbar) expect(control uint8, command extcap.Command, text string) {
	b.Helper()
	var got []extcap.Message
	for timeout := time.After(10 * time.Second); ; {
		select {
		case m := <-b.messages:
			if m.Control == control && m.Command == command && strings.Contains(string(m.Payload), text) {
				return
			}
			got = append(got, m)
		case <-timeout:
			b.Fatalf("no message %d of control %d with %q, but %q", command, control, text, got)
		}
	}
}

// Controls of the toolbar, by number.
const (
	rateControl, latencyControl, lossControl, downControl = 0, 1, 2, 3
)

// The toolbar shows the link, changes it, says what is wrong, and follows the changes of others. What it remembers of
// an earlier capture changes nothing.
func TestToolbar(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--nodes", "2", "--lat", "0s", "--set", "shaper=htb", "--name", "lab")
	b := w.startExtcap("ddlemu:lab:node0:node1")
	b.send(downControl, extcap.Set, "\x01") // before the toolbar is ready
	b.send(0, extcap.Initialized, "")
	b.expect(rateControl, extcap.Set, "1Gbps")
	b.expect(latencyControl, extcap.Set, "0s")
	b.expect(lossControl, extcap.Set, "none")
	b.expect(downControl, extcap.Set, "\x00")
	w.run("exec", "node0", "--", "ping", "-qc", "1", "-W", "5", "node1")

	b.send(downControl, extcap.Set, "\x01")
	b.expect(downControl, extcap.StatusBar, "node0:node1 state is DOWN")
	if out, status := w.try("exec", "node0", "--", "ping", "-qc", "1", "-W", "1", "node1"); status == 0 {
		t.Errorf("the link is not down: %s", out)
	}
	b.expect(downControl, extcap.Set, "\x01")
	b.send(downControl, extcap.Set, "\x00")
	b.expect(downControl, extcap.Set, "\x00")
	w.run("exec", "node0", "--", "ping", "-qc", "1", "-W", "5", "node1")

	b.send(rateControl, extcap.Set, "500Mbit")
	b.expect(rateControl, extcap.Set, "500Mbps")
	if out := w.run("status"); !regexp.MustCompile(`node0 +node1 +500Mbps `).MatchString(out) ||
		!regexp.MustCompile(`node1 +node0 +1Gbps `).MatchString(out) {
		t.Errorf("the rates of the two directions:\n%s", out)
	}
	b.send(lossControl, extcap.Set, "200%")
	b.expect(lossControl, extcap.StatusBar, "ddlemu: ")
	b.expect(lossControl, extcap.Set, "none")
	b.send(latencyControl, extcap.Set, "1ms")
	b.expect(latencyControl, extcap.StatusBar, "htb delays nothing")
	w.run("shape", "--loss", "1%")
	b.expect(lossControl, extcap.Set, "1%")
}

// A capture ends when nobody reads its packets any more, even if there are no packets.
func TestExtcapEndsWithItsReader(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--nodes", "2", "--lat", "0s", "--set", "shaper=htb", "--name", "lab")
	for _, node := range []string{"node0", "node1"} {
		// Otherwise the nodes look for routers and neighbours at any time.
		w.run("exec", node, "--", "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
	}
	w.startExtcap("ddlemu:lab:node0:node1") // the end of the test checks it
}

// startExtcap runs `ddlemu extcap --capture` as Wireshark does. At the end of the test nobody reads its packets any
// more, so it ends.
func (w *user) startExtcap(iface string) *toolbar {
	w.Helper()
	dir := w.TempDir()
	pipe := func(name string) (string, *os.File) {
		path := filepath.Join(dir, name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			w.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { f.Close() })
		return path, f
	}
	in, to := pipe("in")
	outPath, from := pipe("out")
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		w.Fatal(err)
	}
	cmd := w.command("extcap", "--capture", "--extcap-interface", iface, "--fifo", fifo, "--extcap-control-in", in,
		"--extcap-control-out", outPath)
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	packets, err := os.Open(fifo)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		packets.Close()
		timeout := time.AfterFunc(10*time.Second, func() {
			w.Error("the capture does not end")
			_ = cmd.Process.Kill()
		})
		defer timeout.Stop()
		if err := cmd.Wait(); err != nil {
			w.Errorf("%v: %s", err, out.String())
		}
	})
	b := &toolbar{w.T, to, make(chan extcap.Message, 1000)}
	go func() {
		for {
			m, err := extcap.Read(from)
			if err != nil {
				return
			}
			b.messages <- m
		}
	}()
	return b
}
