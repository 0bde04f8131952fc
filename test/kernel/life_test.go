// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// A fabric can be used while it is up, a second `up` is refused, and `down` removes everything.
func TestUpDown(t *testing.T) {
	w := newUser(t)
	before := interfaces(t)
	w.up("--profile", "eth10", "--nodes", "3", "--set", "nics_per_node=2")
	out, status := w.try("up", "--set", "datapath=kernel", "--no-measure", "--profile", "eth10")
	if status != 2 || !strings.Contains(out, "fabric eth10 is up already (profile eth10, 3 nodes, 2 NICs each") {
		t.Errorf("second up: exit status %d\n%s", status, out)
	}
	if got := w.run("exec", "node2", "--", "sh", "-c",
		"hostname; ls /sys/class/net; cat /sys/class/net/eth1/mtu"); got != "node2\neth0\neth1\nlo\n1500\n" {
		t.Errorf("on node2: %q", got)
	}
	if got := w.run("exec", "node2", "--", "ip", "route", "get", "10.77.1.1"); !strings.Contains(got, "dev eth1") ||
		!strings.Contains(got, "congctl cubic") {
		t.Errorf("route to another node's second NIC: %s", got)
	}
	if d := cmp.Diff(before, interfaces(t)); d != "" {
		t.Errorf("the host's interfaces have changed: %s", d)
	}
	w.run("down")
	w.CheckRemoved()
}

func interfaces(t *testing.T) []string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, i.Name)
		for _, a := range addrs {
			names = append(names, a.String())
		}
	}
	return names
}

// Every NIC reaches every other NIC by IPv4 and IPv6, but none of another fabric.
func TestReachability(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth10", "--nodes", "2", "--set", "nics_per_node=2", "--name", "one")
	w.up("--profile", "eth10", "--nodes", "2", "--set", "nics_per_node=2", "--name", "two")
	nodes := []*netns.Node{w.node("one", 0), w.node("one", 1)}
	for i := range 2 {
		for j := range 2 {
			from, to := nodes[0].NICs[i], nodes[1].NICs[j]
			if err := echo(nodes[0], nodes[1], from.Addr4.String(), to.Addr4.String()); err != nil {
				t.Errorf("%v to %v: %v", from.Addr4, to.Addr4, err)
			}
			if err := echo(nodes[0], nodes[1], from.Addr6.String(), to.Addr6.String()); err != nil {
				t.Errorf("%v to %v: %v", from.Addr6, to.Addr6, err)
			}
		}
	}
	// The other fabric has the same addresses.
	other := w.node("two", 1)
	if err := echo(nodes[0], other, nodes[0].NICs[0].Addr4.String(), other.NICs[0].Addr4.String()); err == nil {
		t.Error("one fabric reaches the other")
	}
}

// node returns the plan of a node of a fabric that is up.
func (w *user) node(fabric string, n int) *netns.Node {
	w.Helper()
	subnet := w.subnet(fabric)
	p, err := netns.NewPlan(w.Dir, fabric, max(n+1, 2), 2, subnet)
	if err != nil {
		w.Fatal(err)
	}
	return &p.Nodes[n]
}

// echo sends a text from one node to another and back, by a TCP connection between these addresses.
func echo(from, to *netns.Node, source, target string) error {
	var l net.Listener
	err := netns.Do(to.Namespace, func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(target, "0"))
		return err
	})
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 5)
		if _, err := c.Read(b); err == nil {
			_, _ = c.Write(b)
		}
	}()
	return netns.Do(from.Namespace, func() error {
		// With one address and without fallback, Dial starts no goroutines. Those would be in another namespace.
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 2 * time.Second, FallbackDelay: -1}
		c, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		_, err = c.Read(make([]byte, 5))
		return err
	})
}

// gc removes everything, at whatever point of `up` its daemon, or `up` itself, was killed.
func TestKilledDuringUp(t *testing.T) {
	w := newUser(t)
	start := time.Now()
	w.up("--profile", "eth10", "--nodes", "3")
	step := time.Since(start) / 40
	w.run("down")
	for i := range 40 {
		cmd := w.command("up", "--set", "datapath=kernel", "--no-measure", "--profile", "eth10", "--nodes", "3")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * step)
		if i%4 == 3 {
			_ = cmd.Process.Kill()
		}
		w.killDaemons()
		_ = cmd.Wait()
		// An `up` that was killed may have just started its daemon.
		time.Sleep(20 * time.Millisecond)
		w.killDaemons()
		w.run("gc")
		if w.CheckRemoved(); t.Failed() {
			t.Fatalf("killed %v after the start", time.Duration(i)*step)
		}
	}
}

// gc removes the namespaces and the folder of a measurement of this host whose command was killed, at whatever point.
func TestKilledDuringMeasurement(t *testing.T) {
	w := newUser(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	folders := func() []string {
		all, _ := filepath.Glob(filepath.Join(temp, "ddlemu-floor-*")) // the pattern is right
		return all
	}
	left := 0
	for i := range 3 {
		cmd := w.command("up", "--set", "datapath=kernel", "--profile", "eth10", "--nodes", "2")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); len(folders()) == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(i) * 80 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		var names []string
		for _, folder := range folders() {
			some, err := netns.List(netns.DirPrefix(folder))
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, some...)
		}
		left += len(names)
		w.run("down", "--all")
		w.run("gc")
		names = slices.DeleteFunc(names, func(name string) bool { return !netns.Exists(name) })
		if rest := folders(); len(rest) > 0 || len(names) > 0 {
			t.Fatalf("gc has left %v and %v", rest, names)
		}
	}
	if left == 0 {
		t.Error("no command was killed while it measured")
	}
}

// killDaemons kills the daemons of the world and waits until they have ended. A process that ends loses its command
// line before its locks, so it watches the processes themselves.
func (w *user) killDaemons() {
	w.Helper()
	for pids := w.Daemons(); len(pids) > 0; pids = w.Daemons() {
		for _, pid := range pids {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue // it has ended
			}
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			n, err := 0, error(unix.EINTR)
			for errors.Is(err, unix.EINTR) {
				n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000)
			}
			if n != 1 {
				w.Fatalf("daemon %d was killed and has not ended: %v", pid, err)
			}
			unix.Close(fd)
		}
	}
}

// A daemon that was killed is reported, and `down` removes what it created.
func TestKilledDaemon(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth10", "--nodes", "2")
	w.killDaemons()
	if out := w.run("status"); !strings.Contains(out, "its daemon is gone: remove it with `ddlemu gc`") {
		t.Errorf("status says\n%s", out)
	}
	if out, status := w.try("exec", "node0", "--", "true"); status != 2 ||
		!strings.Contains(out, "daemon of fabric eth10 is gone") {
		t.Errorf("exec: exit status %d: %s", status, out)
	}
	w.run("down")
	w.CheckRemoved()
}

// A daemon removes its fabric and ends when the folder of its file is deleted.
func TestFolderRemoved(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth10", "--nodes", "2")
	if err := os.RemoveAll(w.Dir); err != nil {
		t.Fatal(err)
	}
	w.CheckRemoved()
}

func TestRepeatedUpAndDown(t *testing.T) {
	w := newUser(t)
	times := 20
	if os.Getenv("DDLEMU_TEST_LONG") != "" {
		times = 200
	}
	before := bpfPrograms(t)
	for i := range times {
		args := []string{"--profile", "eth1", "--nodes", "2"}
		if i%2 == 1 {
			args = append(args, "--set", "shaper=htb", "--lat", "0s")
		}
		w.up(args...)
		w.run("down")
	}
	w.CheckRemoved()
	// The kernel frees programs a moment after they are detached.
	for end := time.Now().Add(10 * time.Second); bpfPrograms(t) > before; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d BPF programs, %d before", bpfPrograms(t), before)
		}
	}
}

// bpfPrograms returns the number of BPF programs in this machine's kernel.
func bpfPrograms(t *testing.T) int {
	t.Helper()
	n, id := 0, ebpf.ProgramID(0)
	for {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return n
		}
		if err != nil {
			t.Fatalf("count BPF programs: %v", err)
		}
		n, id = n+1, next
	}
}

// Bad input is refused with one line that names the cause, and nothing remains.
func TestBadInput(t *testing.T) {
	w := newUser(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--profile", "eth1", "--nodes", "300"}, "nodes: 300 is out of range: must be 1 to 256"},
		{[]string{"--profile", "eth1", "--nodes", "255"}, "nodes: 255: must be 1 to 254 on the kernel datapath"},
		{[]string{"--profile", "eth1", "--set", "subnet=10.1.2.0/24"}, "is not a private IPv4 network of 16 bits"},
		{[]string{"--profile", "eth1", "--set", "shaper=soap"}, `"soap" is not one of auto, edt, netem, htb, wire`},
		{[]string{"-f", "testdata/mtu.yaml"}, "the kernel datapath has one for all NICs"},
		{[]string{"--profile", "eth1", "--name", "a/b"}, "give --name"},
	} {
		out, status := w.try(append([]string{"up", "--set", "datapath=kernel", "--no-measure"}, c.args...)...)
		if status != 2 || !strings.Contains(out, c.want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%v: exit status %d: %s\nwant %s", c.args, status, out, c.want)
		}
		w.CheckRemoved()
	}
}

// Without privileges, `up` names the missing capability and a datapath that does not need it.
func TestWithoutPrivileges(t *testing.T) {
	w := newUser(t)
	cmd := exec.Command("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", "--", w.Program, "up",
		"--set", "datapath=kernel", "--profile", "eth1")
	cmd.Env = append(os.Environ(), "DDLEMU_DIR="+w.Dir)
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2 ||
		!strings.Contains(string(out), "the kernel datapath needs CAP_NET_ADMIN: use sudo, or --set datapath=shm") {
		t.Errorf("%v: %s", cmd.ProcessState, out)
	}
}

// A namespace that another program created is not removed.
func TestNameClash(t *testing.T) {
	w := newUser(t)
	name := netns.FabricPrefix(w.Dir, "eth1") + "node1"
	if err := netns.Create(name); err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(name)
	out, status := w.try("up", "--set", "datapath=kernel", "--no-measure", "--profile", "eth1")
	if status != 2 || !strings.Contains(out, name) || !strings.Contains(out, "ddlemu gc") {
		t.Errorf("exit status %d: %s", status, out)
	}
	if !netns.Exists(name) {
		t.Error("the namespace was removed")
	}
}

// A change that the shaper does not support is refused, and the links stay as they were.
func TestUnsupportedChange(t *testing.T) {
	w := newUser(t)
	w.up("--profile", "eth1", "--lat", "0s", "--set", "shaper=htb")
	before := w.run("shape", "--json")
	for _, c := range []struct{ flag, value, want string }{
		{"--lat", "10ms", "htb delays nothing, and a latency of 10ms is asked for"},
		{"--mtu", "9000", "9000, others have 1500: the kernel datapath has one for all NICs"},
	} {
		out, status := w.try("shape", c.flag, c.value)
		if status != 2 || !strings.Contains(out, c.want) {
			t.Errorf("shape %s %s: exit status %d: %s", c.flag, c.value, status, out)
		}
	}
	after := w.run("shape", "--json")
	for _, text := range []string{`"latency_ns": 0,`, `"mtu": 1500,`} {
		if n := strings.Count(before, text); n == 0 || strings.Count(after, text) != n {
			t.Errorf("after the refusal:\n%s\nbefore:\n%s", after, before)
		}
	}
}
