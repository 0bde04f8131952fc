// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/test/needs"
)

// capturing is `ddlemu capture` while it runs.
type capturing struct {
	*user
	cmd  *exec.Cmd
	file string
	out  bytes.Buffer
}

// capture begins to capture a fabric, and returns when packets are seen.
func (w *user) capture(args ...string) *capturing {
	w.Helper()
	c := &capturing{user: w, file: filepath.Join(w.TempDir(), "x.pcapng")}
	c.cmd = w.command(append([]string{"capture", "-o", c.file}, args...)...)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	if err := c.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.cmd.Process.Kill() }) // fails if it has ended
	// The file with a temporary name has its header once the daemon has opened the tap.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if all, _ := filepath.Glob(filepath.Join(filepath.Dir(c.file), ".x.pcapng.*")); len(all) == 1 {
			if info, err := os.Stat(all[0]); err == nil && info.Size() > 0 {
				return c
			}
		}
		if time.Now().After(end) {
			w.Fatalf("the capture does not begin: %s", c.out.String())
		}
	}
}

// end interrupts the capture, and returns its summary.
func (c *capturing) end() string {
	c.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
		c.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.Fatalf("%v: %s", err, c.out.String())
	}
	return c.out.String()
}

// tshark reads the file, and returns the lines.
func (c *capturing) tshark(args ...string) []string {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), needs.Optional(c, "tshark"), append([]string{"-r", c.file}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+c.TempDir()) // no settings of the user's
	out, err := cmd.Output()
	if err != nil {
		c.Fatalf("tshark %q: %v", args, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// matching is how many packets a display filter finds.
func (c *capturing) matching(filter string) int {
	c.Helper()
	n := 0
	for _, line := range c.tshark("-Y", filter, "-T", "fields", "-e", "frame.number") {
		if line != "" {
			n++
		}
	}
	return n
}

// links returns the counters of the links of a fabric. The daemon updates them every 100 ms.
func (w *user) links(fabric string) map[string]link.Counters {
	w.Helper()
	time.Sleep(300 * time.Millisecond)
	dir, err := state.OpenDir(w.Dir, os.Getuid(), false)
	if err != nil {
		w.Fatal(err)
	}
	defer dir.Close()
	file, err := dir.Open(fabric)
	if err != nil {
		w.Fatal(err)
	}
	defer file.Close()
	all := map[string]link.Counters{}
	for _, h := range file.Hops() {
		if h.Kind == link.Link {
			all[fmt.Sprintf("node%d:node%d", h.Src, h.Dst)] = h.Counters
		}
	}
	return all
}

// A capture has every packet that the fabric counts, and what happened to each: as many drops as the fabric counts.
// tshark and gopacket read it, and no packet is malformed.
func TestCaptureCountsAsTheFabric(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--nodes", "3", "--lat", "0s", "--set", "link.loss=3%", "--set", "shaper=htb")
	for n := range 3 {
		// Otherwise the nodes look for routers and neighbours at any time.
		w.run("exec", fmt.Sprintf("node%d", n), "--", "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
	}
	c := w.capture()
	before := w.links("eth1")
	to := net.JoinHostPort(w.node("eth1", 0).NICs[0].Addr4.String(), "9")
	for n := 1; n <= 2; n++ {
		if err := flood(w.node("eth1", n), to, 20_000_000, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	w.run("exec", "node0", "--", "ping", "-qc", "20", "-i", "0.01", "node1")
	after := w.links("eth1")
	t.Log(strings.TrimSpace(c.end()))
	if n := c.matching("_ws.malformed"); n != 0 {
		t.Errorf("%d malformed packets", n)
	}
	for name := range before {
		sent, dropped := int(after[name].Segments-before[name].Segments), int(after[name].Drops-before[name].Drops)
		on := fmt.Sprintf("frame.interface_name == %q", name)
		if n := c.matching(on + " && frame.verdict.ebpf_tc == 2"); n != dropped {
			t.Errorf("%s: %d packets with the verdict to drop, the fabric has dropped %d", name, n, dropped)
		}
		if n := c.matching(on + ` && frame.comment contains "fate=lost"`); n != dropped {
			t.Errorf("%s: %d lost packets, the fabric has lost %d", name, n, dropped)
		}
		if n := c.matching(on + ` && frame.comment contains "fate=sent"`); n != sent {
			t.Errorf("%s: %d packets were sent, the fabric has counted %d", name, n, sent)
		}
		if strings.HasSuffix(name, ":node0") && (sent < 1500 || dropped < 10) {
			t.Errorf("%s: %d packets and %d drops: there was too little traffic for this test", name, sent, dropped)
		}
	}
	c.checkGopacket(6)
}

// checkGopacket reads the file with gopacket, and checks the number of interfaces.
func (c *capturing) checkGopacket(interfaces int) {
	c.Helper()
	f, err := os.Open(c.file)
	if err != nil {
		c.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		c.Fatal(err)
	}
	udp := 0
	for {
		data, info, err := r.ReadPacketData()
		if err != nil {
			break
		}
		if info.CaptureLength > 128 || info.Length < info.CaptureLength || time.Since(info.Timestamp) > time.Hour {
			c.Fatalf("%+v", info)
		}
		if gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Lazy).Layer(layers.LayerTypeUDP) != nil {
			udp++
		}
	}
	if r.NInterfaces() != interfaces || udp < 3000 {
		c.Errorf("%d interfaces, %d UDP packets", r.NInterfaces(), udp)
	}
}

// Segmentation offload leaves large packets whole; the capture says how many packets each of them is on the link.
func TestCaptureCountsSegments(t *testing.T) {
	needs.Optional(t, "iperf3")
	w := newUser(t)
	w.up("--profile", "eth1", "--nodes", "2", "--lat", "0s", "--set", "shaper=htb")
	before := w.links("eth1")["node0:node1"]
	c := w.capture("--link", "node0>node1", "--snaplen", "96")
	w.run("exec", "node1", "--", "iperf3", "-s", "-1", "-D")
	w.run("exec", "node0", "--", "iperf3", "-c", "node1", "-t", "1")
	after := w.links("eth1")["node0:node1"]
	t.Log(strings.TrimSpace(c.end()))
	packets := 0
	for _, text := range c.tshark("-T", "fields", "-e", "frame.comment") {
		_, n, _ := strings.Cut(text, "packets=")
		k, err := strconv.Atoi(n)
		if err != nil {
			t.Fatalf("comment %q", text)
		}
		packets += k
	}
	// A router solicitation may have passed before the capture began.
	if want := int(after.Segments - before.Segments); packets < want-2 || packets > want || want < 10_000 {
		t.Errorf("%d packets, the fabric has counted %d", packets, want)
	}
	if n := c.matching("_ws.malformed"); n != 0 {
		t.Errorf("%d malformed packets", n)
	}
}

// A shaper without eBPF programs is captured by a packet socket, and the output says so.
func TestCaptureWithoutPrograms(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--nodes", "2", "--lat", "1ms", "--set", "shaper=wire")
	c := w.capture("--link", "node0:node1")
	w.run("exec", "node0", "--", "ping", "-qc", "10", "-i", "0.01", "node1")
	if out := c.end(); !strings.Contains(out, "the shaper wire has no eBPF programs") {
		t.Errorf("the summary: %s", out)
	}
	for _, name := range []string{"node0:node1", "node1:node0"} {
		if n := c.matching(
			fmt.Sprintf(`icmp && frame.interface_name == %q && frame.interface_description contains "packet socket"`,
				name)); n != 10 {
			t.Errorf("%d packets on %s, want 10", n, name)
		}
	}
	if n := c.matching("_ws.malformed"); n != 0 {
		t.Errorf("%d malformed packets", n)
	}
}

// Captures end by themselves: with a number of packets, a time, or the fabric. Standard output is a file too.
func TestCaptureEnds(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--nodes", "2", "--lat", "0s", "--set", "shaper=htb")
	c := w.capture("--count", "7")
	w.run("exec", "node0", "--", "ping", "-qc", "10", "-i", "0.01", "node1")
	if err := c.cmd.Wait(); err != nil || c.matching("frame") != 7 {
		t.Errorf("%v: %s", err, c.out.String())
	}
	if out, status := w.try("capture", "--duration", "100ms", "-o", c.file); status != 2 ||
		!strings.Contains(out, "--force") {
		t.Errorf("a file that exists: exit status %d: %s", status, out)
	}
	if out := w.run("capture", "--duration", "100ms", "-o", c.file, "--force"); !strings.Contains(out, "on 2 links") {
		t.Errorf("%s", out)
	}
	if out := w.run("capture", "--duration", "100ms", "-o", "-"); !strings.HasPrefix(out, "\n\r\r\n") ||
		!strings.Contains(out, "standard output: ") {
		t.Errorf("standard output: %q", out)
	}
	c = w.capture()
	w.run("down")
	if err := c.cmd.Wait(); err != nil || !strings.Contains(c.out.String(), "the fabric was taken down") {
		t.Errorf("%v: %s", err, c.out.String())
	}
}

// tshark shows the packets of a link as they come, from a pipe. The capture ends when tshark has ended.
func TestCaptureInPipe(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--nodes", "2", "--lat", "0s", "--set", "shaper=htb")
	captured := w.command("capture", "--link", "node0>node1", "-w", "-")
	packets, err := captured.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	tshark := exec.CommandContext(t.Context(), needs.Optional(t, "tshark"), "-i", "-", "-c", "5", "-T", "fields",
		"-e", "frame.interface_name", "-e", "_ws.malformed")
	tshark.Env = append(os.Environ(), "HOME="+t.TempDir())
	tshark.Stdin = packets
	var shown bytes.Buffer
	tshark.Stdout = &shown
	if err := errors.Join(captured.Start(), tshark.Start()); err != nil {
		t.Fatal(err)
	}
	packets.Close() // tshark has the other copy
	timeout := time.AfterFunc(30*time.Second, func() { _ = errors.Join(captured.Process.Kill(), tshark.Process.Kill()) })
	defer timeout.Stop()
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(tshark.Wait(), captured.Wait()) }()
	for {
		w.run("exec", "node0", "--", "ping", "-qc", "2", "-i", "0.05", "node1")
		select {
		case err := <-ended:
			if want := strings.Repeat("node0:node1\t\n", 5); shown.String() != want ||
				captured.ProcessState.ExitCode() != 128+int(syscall.SIGPIPE) {
				t.Errorf("tshark shows %q, want %q: %v", &shown, want, err)
			}
			return
		default:
		}
	}
}

// A capture that is stopped does not keep the fabric from being taken down.
func TestStoppedCapture(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--nodes", "2", "--lat", "0s", "--set", "shaper=htb")
	c := w.capture()
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	to := net.JoinHostPort(w.node("eth1", 0).NICs[0].Addr4.String(), "9")
	if err := flood(w.node("eth1", 1), to, 100_000_000, time.Second); err != nil {
		t.Fatal(err)
	}
	w.run("down")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // killed
}
