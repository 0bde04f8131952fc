// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// moment is a time at which a command that brings a fabric up is interrupted.
type moment struct {
	name      string
	isReached func(w *user) bool
	mayBeUp   bool // the fabric may be up at that time
}

// moments depend on what exists of the fabric, so they do not depend on how busy the host is: when the first node
// exists, the other 39 do not yet.
var moments = []moment{
	{"after 10 ms", after(10 * time.Millisecond), false},
	{"when its file exists", func(w *user) bool { files, _ := os.ReadDir(w.Dir); return len(files) > 0 }, false},
	// the first is the switch
	{"when its first node exists", func(w *user) bool { return len(w.Namespaces()) > 1 }, false},
	{"after 300 ms", after(300 * time.Millisecond), true},
}

func after(d time.Duration) func(*user) bool {
	return func(*user) bool { time.Sleep(d); return true }
}

// An interrupt ends a command that brings a fabric up, at any time before the fabric is up. Nothing remains.
func TestInterrupted(t *testing.T) {
	w := newUser(t)
	for _, args := range [][]string{
		{"up", "--set", "datapath=kernel", "--no-measure", "--profile", "eth1", "--nodes", "40"},
		{"run", "--set", "datapath=kernel", "--profile", "eth1", "--nodes", "3", "--per-node", "--", "sleep", "60"},
	} {
		if _, err := os.Stat("../../build/lib/libgoemu.so"); args[0] == "run" && err != nil {
			t.Log("SKIPPED: run needs the plugin (make build)")
			continue
		}
		for _, m := range moments {
			state, out := w.interrupt(m, args...)
			if m.mayBeUp && strings.Contains(out, " is up: ") && state.Success() {
				w.run("down") // the command had finished
				w.CheckRemoved()
				continue
			}
			// Before Go handles signals, the signal itself ends the process.
			if s, ok := state.Sys().(syscall.WaitStatus); state.ExitCode() != 130 &&
				(!ok || s.Signal() != syscall.SIGINT) {
				t.Errorf("%s: interrupted %s: exit status %d: %s", args[0], m.name, state.ExitCode(), out)
				w.try("down", "--all")
			}
			w.CheckRemoved()
		}
	}
}

// interrupt runs ddlemu, interrupts it at a moment, and returns its state and its output.
func (w *user) interrupt(m moment, args ...string) (state *os.ProcessState, out string) {
	w.Helper()
	cmd := w.command(args...)
	cmd.Env = append(cmd.Env, "DDLEMU_PLUGIN_DIR=../../build/lib")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	timeout := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	for end := time.Now().Add(10 * time.Second); !m.isReached(w) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		w.Fatal(err)
	}
	_ = cmd.Wait() // the state has the result
	if !timeout.Stop() {
		w.Fatalf("%s: interrupted %s, it did not end", args[0], m.name)
	}
	return cmd.ProcessState, output.String()
}

// `shape` succeeds only if the change is in force.
func TestShapeReportsWhatIsInForce(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--lat", "0s", "--set", "shaper=htb")
	w.run("shape", "--bw", "500Mbps")
	// 500 Mb/s of line bytes. tc counts frames without framing, so its rate is lower.
	if out := w.run("exec", "node0", "--", "tc", "class", "show", "dev", "eth0"); !strings.Contains(out, "ceil 492") {
		t.Errorf("shape has succeeded, but the rate is not in force:\n%s", out)
	}
	w.run("exec", "node0", "--", "tc", "qdisc", "del", "dev", "eth0", "root")
	if out, status := w.try("shape", "--bw", "50Mbps"); status != 1 ||
		!strings.Contains(out, "the change is not in force") {
		t.Errorf("exit status %d: %s", status, out)
	}
	w.killDaemons()
	for _, args := range [][]string{{"shape", "--bw", "10Mbps"}, {"up", "--set", "datapath=kernel", "--profile", "eth1"}} {
		if out, status := w.try(args...); status != 2 ||
			!strings.Contains(out, "is gone: remove what it left with `ddlemu gc`") {
			t.Errorf("%s: exit status %d: %s", args[0], status, out)
		}
	}
}

// `up` on a node of another fabric is refused.
func TestUpOnANode(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1")
	out, status := w.try("exec", "node0", "--", w.Program, "up", "--set", "datapath=kernel", "--profile", "eth1", "--name",
		"inner")
	if status != 2 || !strings.Contains(out, "this process runs on a node of a fabric") {
		t.Errorf("exit status %d: %s", status, out)
	}
}

// Packets that find a full queue at a receive port are counted there and shown.
func TestFullQueueIsCounted(t *testing.T) {
	w := newUser(t)
	for _, shaper := range []string{"htb", "wire"} {
		w.up("--profile", "eth1", "--nodes", "3", "--lat", "0s", "--bw", "10Mbps", "--set", "link.queue=taildrop:64K",
			"--set", "shaper="+shaper)
		to := net.JoinHostPort(w.node("eth1", 0).NICs[0].Addr4.String(), "9")
		done, begin := make(chan error, 2), time.Now()
		for n := 1; n <= 2; n++ {
			from := w.node("eth1", n)
			go func() { done <- flood(from, to, 9_000_000, 2*time.Second) }()
		}
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
		// 36 Mbit arrive in packets of 1400 bytes, and the port carries 20 Mbit in 2 s. If other load makes the senders
		// slower, it carries the more packets, of 1466 bytes with headers and framing.
		longer := time.Since(begin) - 2*time.Second
		least := max(1, 700-longer.Seconds()*10e6/(8*1466))
		for _, p := range w.counted() {
			if congested := p.NIC == "node0" && p.Direction == "rx"; congested != (p.Drops > 0) || congested &&
				(float64(p.Drops) < least || p.Drops > 2500) {
				t.Errorf("%s: %d drops at %s %s, want %.0f to 2500", shaper, p.Drops, p.NIC, p.Direction, least)
			}
		}
		if out := w.run("status"); !strings.Contains(out, "packets did not fit into its queue") {
			t.Errorf("%s: the drops are not shown:\n%s", shaper, out)
		}
		w.run("down")
	}
}

// portDrops is what the tests need of a port in `ddlemu status --json`.
type portDrops struct {
	NIC, Direction string
	Drops          uint64
}

// counted returns the ports when the daemon, which counts every 100 ms, has counted drops and no more since the reading
// before.
func (w *user) counted() []portDrops {
	w.Helper()
	var before []portDrops
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		var s struct{ Ports []portDrops }
		if err := json.Unmarshal([]byte(w.run("status", "--json")), &s); err != nil {
			w.Fatal(err)
		}
		dropped := slices.ContainsFunc(s.Ports, func(p portDrops) bool { return p.Drops > 0 })
		if dropped && slices.Equal(s.Ports, before) || time.Now().After(end) {
			return s.Ports
		}
		before = s.Ports
	}
}

// flood sends UDP packets from a node at a rate in bit/s for a time.
func flood(from *netns.Node, to string, rate int, length time.Duration) error {
	return netns.Do(from.Namespace, func() error {
		c, err := net.Dial("udp", to)
		if err != nil {
			return err
		}
		defer c.Close()
		packet := make([]byte, 1400)
		begin := time.Now()
		for sent := 0; ; sent += len(packet) * 8 {
			due := begin.Add(time.Duration(float64(sent) / float64(rate) * 1e9))
			if due.Sub(begin) > length {
				return nil
			}
			time.Sleep(time.Until(due))
			if _, err := c.Write(packet); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				return err
			}
		}
	})
}
