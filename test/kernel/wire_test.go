// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/test/measure"
)

// within measures until enough results are right, as measure.Repeat does. right says it of a value that late timers of
// the machine cannot change.
func within[T any](t *testing.T, what string, try func() (T, error), right func(T) bool) {
	t.Helper()
	measure.Repeat(t, what, func() (measure.Result, error) {
		got, err := try()
		return measure.Exact(got, err == nil && right(got)), err
	})
}

// withinRate measures a rate until enough results differ from want by at most 2 %.
func withinRate(t *testing.T, what string, want float64, rate func() (float64, error)) {
	t.Helper()
	measure.Repeat(t, what, func() (measure.Result, error) {
		got, err := rate()
		return measure.Rate(got, want, 0.02), err
	})
}

// roundTrip returns a try for measure.Repeat: the round trip between two nodes takes twice the latency, or little more.
func roundTrip(fab *measure.Running, latency time.Duration) func() (measure.Result, error) {
	return func() (measure.Result, error) {
		const pings = 50
		took, err := ping(fab, pings)
		got := median(took)
		return measure.Result{Got: fmt.Sprint(got), Late: got > 2*latency+max(250*time.Microsecond, latency/20),
			Wrong: got < 2*latency || len(took) < pings}, err
	}
}

// wire is measured with the shaper wire.
func (w *user) wire(args ...string) *measure.Running {
	w.Helper()
	return w.measured("wire", args...)
}

// measured brings up fabric t with a shaper and returns it for measurements.
func (w *user) measured(shaper string, args ...string) *measure.Running {
	w.Helper()
	w.up(append([]string{"--profile", "eth1", "--name", "t", "--set", "shaper=" + shaper}, args...)...)
	var fab *fabric.Fabric
	w.withFile(func(f *state.File) {
		var err error
		if fab, err = fabricfile.Read(f); err != nil {
			w.Fatal(err)
		}
	})
	c := &fab.Config
	p, err := netns.NewPlan(w.Dir, "t", c.Nodes, c.NICsPerNode, netip.MustParsePrefix(c.Subnet))
	if err != nil {
		w.Fatal(err)
	}
	return &measure.Running{Network: nodes.Network{Fabric: fab, Plan: p}}
}

// withFile calls f with the file of fabric t.
func (w *user) withFile(f func(*state.File)) {
	w.Helper()
	dir, err := state.OpenDir(w.Dir, os.Getuid(), false)
	if err != nil {
		w.Fatal(err)
	}
	defer dir.Close()
	file, err := dir.Open("t")
	if err != nil {
		w.Fatal(err)
	}
	defer file.Close()
	f(file)
}

// link returns the status of the link from NIC 0 to NIC 1.
func (w *user) link(fab *measure.Running) state.HopStatus {
	w.Helper()
	var h state.HopStatus
	w.withFile(func(f *state.File) { h = f.Hops()[fab.Fabric.Link(0, 1)] })
	return h
}

func flowOf(t *testing.T, fab *measure.Running, src, dst int) *measure.Flow {
	t.Helper()
	f, err := fab.StartFlow(src, dst)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// ping sends n ICMP echo requests from node 0 to node 1 and returns the round trips of
// those that return within a second.
func ping(fab *measure.Running, n int) (took []time.Duration, err error) {
	from, to := fab.Plan.Nodes[0], fab.Plan.Nodes[1].NICs[0].Addr4
	err = netns.Do(from.Namespace, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		tv := unix.NsecToTimeval(int64(time.Second))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
			return err
		}
		echo, answer := make([]byte, 64), make([]byte, 128)
		echo[0] = 8 // the kernel fills in identifier and checksum
		for i := range n {
			binary.BigEndian.PutUint16(echo[6:], uint16(i))
			start := time.Now()
			if err := unix.Sendto(fd, echo, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
				return err
			}
			for {
				m, _, err := unix.Recvfrom(fd, answer, 0)
				if err == unix.EINTR {
					continue
				}
				if err == unix.EAGAIN {
					break
				}
				if err != nil {
					return err
				}
				if m >= 8 && binary.BigEndian.Uint16(answer[6:]) == uint16(i) {
					took = append(took, time.Since(start))
					break
				}
			}
			time.Sleep(2 * time.Millisecond)
		}
		return nil
	})
	return took, err
}

// median returns the largest duration if d is empty.
func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return math.MaxInt64
	}
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// The rate and the latency of a link of 1 Gb/s, and after a change while a flow runs.
func TestWireRateAndLatency(t *testing.T) {
	w := newUser(t)
	fab := w.wire("--nodes", "2")
	measure.Repeat(t, "round trip at 25 us", roundTrip(fab, 25*time.Microsecond))
	f := flowOf(t, fab, 0, 1)
	rate := func() (float64, error) { return f.Rate(500 * time.Millisecond) }
	withinRate(t, "1 Gb/s", fab.Payload(1e9), rate)

	w.run("shape", "--bw", "300Mbps", "--lat", "10ms")
	if _, err := f.Rate(100 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	withinRate(t, "300 Mb/s, from 0.1 s after the change", fab.Payload(300e6),
		func() (float64, error) { return f.Rate(300 * time.Millisecond) })
	f.Close()
	time.Sleep(100 * time.Millisecond) // packets in flight arrive
	measure.Repeat(t, "round trip at 10 ms", roundTrip(fab, 10*time.Millisecond))
}

func TestWireLoss(t *testing.T) {
	w := newUser(t)
	fab := w.wire("--nodes", "2", "--set", "link.loss=1%")
	measure.Repeat(t, "share of datagrams lost", lossOf(w, fab, 40_000, 0.01))
}

// lossOf returns a try for measure.Repeat: of n datagrams a share p is lost, give or take 4 sigma, and the link counts
// each.
func lossOf(w *user, fab *measure.Running, n int, p float64) func() (measure.Result, error) {
	return func() (measure.Result, error) {
		before := w.link(fab).Counters
		came, err := fab.Datagrams(0, 1, n, 200, 20*time.Microsecond)
		if err != nil {
			return measure.Result{}, err
		}
		after := w.link(fab).Counters
		lost, passed := int(after.Drops-before.Drops), int(after.Segments-before.Segments)
		missing, off := n-len(came), 4*math.Sqrt(p*(1-p)*float64(n))
		// The counters include a few packets of other protocols, such as ARP.
		counted := lost+passed >= n && lost+passed <= n+10
		return measure.Exact(fmt.Sprintf("%d of %d, the link counts %d passed and %d lost", missing, n, passed, lost),
			counted && math.Abs(float64(missing)-p*float64(n)) <= off && math.Abs(float64(lost)-p*float64(n)) <= off), nil
	}
}

// If some packets of a GSO packet are lost, the others arrive: one packet in 50 is lost, and not one GSO packet in 50.
func TestWireLossInGSOPackets(t *testing.T) {
	w := newUser(t)
	fab := w.wire("--nodes", "2", "--set", "link.loss=2%")
	data := make([]byte, 40<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(data)
	got, err := transfer(fab, data)
	if err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256(data); got != want {
		t.Error("the received data differs from the sent data")
	}
	c := w.link(fab).Counters
	n := float64(c.Drops + c.Segments)
	if lost := float64(c.Drops) / n; math.Abs(lost-0.02) > 4*math.Sqrt(0.02*0.98/n) {
		t.Errorf("%.2f %% of %.0f packets are lost, want 2 %%", 100*lost, n)
	}
}

// TCP notices that packets were reordered, and transfers all data.
func TestWireReorder(t *testing.T) {
	w := newUser(t)
	fab := w.wire("--nodes", "2", "--lat", "3ms", "--set", "link.reorder=2%,2ms")
	before := reorderings(t, fab)
	data := make([]byte, 20<<20)
	got, err := transfer(fab, data)
	if err != nil {
		t.Fatal(err)
	}
	if got != sha256.Sum256(data) {
		t.Error("the received data differs from the sent data")
	}
	if after := reorderings(t, fab); after == before {
		t.Error("the sender's TCP saw no reordering")
	}
}

// reorderings returns how often TCP on node 0 has detected reordering, by selective acknowledgements or timestamps.
func reorderings(t *testing.T, fab *measure.Running) (n uint64) {
	t.Helper()
	var text []byte
	err := netns.Do(fab.Plan.Nodes[0].Namespace, func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/netstat")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	names, values := strings.Fields(lines[0]), strings.Fields(lines[1])
	for i, name := range names {
		if name == "TCPSACKReorder" || name == "TCPRenoReorder" || name == "TCPTSReorder" {
			v, err := strconv.ParseUint(values[i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n += v
		}
	}
	return n
}

// transfer sends data by TCP from node 0 to node 1 and returns the hash of the received data.
func transfer(fab *measure.Running, data []byte) (sum [32]byte, err error) {
	var l net.Listener
	address := net.JoinHostPort(fab.Plan.Nodes[1].NICs[0].Addr4.String(), "0")
	err = netns.Do(fab.Plan.Nodes[1].Namespace, func() (err error) { l, err = net.Listen("tcp", address); return err })
	if err != nil {
		return sum, err
	}
	defer l.Close()
	sent := make(chan error, 1)
	go func() {
		sent <- netns.Do(fab.Plan.Nodes[0].Namespace, func() error {
			d := net.Dialer{FallbackDelay: -1}
			c, err := d.Dial("tcp", l.Addr().String())
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write(data)
			return err
		})
	}()
	c, err := l.Accept()
	if err != nil {
		return sum, err
	}
	defer c.Close()
	h := sha256.New()
	if _, err := io.Copy(h, c); err != nil {
		return sum, err
	}
	return [32]byte(h.Sum(nil)), <-sent
}

// All nodes send to all others concurrently: each pair gets an equal share.
func TestWireShares(t *testing.T) {
	// The rate is so low that a busy host carries it: at 50 Mb/s, a packet of the MTU takes 0.25 ms.
	const nodes, rate = 4, 50_000_000
	w := newUser(t)
	fab := w.wire("--nodes", fmt.Sprint(nodes), "--bw", "50Mbps")
	var flows []*measure.Flow
	for a := range nodes {
		for b := range nodes {
			if a != b {
				flows = append(flows, flowOf(t, fab, a, b))
			}
		}
	}
	share := fab.Payload(rate) / (nodes - 1)
	// Each node's link also carries the acknowledgements of what it receives: 66 bytes for every second packet.
	const acks = 66.0 / (2 * 1514)
	measure.Repeat(t, "least and largest share of 12 pairs", func() (measure.Result, error) {
		rates := make([]float64, len(flows))
		errs := make([]error, len(flows))
		var all sync.WaitGroup
		for i, f := range flows {
			all.Go(func() { rates[i], errs[i] = f.Rate(1500 * time.Millisecond) })
		}
		all.Wait()
		least, largest := slices.Min(rates)/share, slices.Max(rates)/share
		return measure.Result{Got: fmt.Sprintf("%.4g to %.4g", least, largest), IsRate: true,
			Low: max(0, 0.97-acks-least), Wrong: largest > 1.03}, errors.Join(errs...)
	})
}

func TestWireDownAndUp(t *testing.T) {
	w := newUser(t)
	fab := w.wire("--nodes", "2")
	took, err := ping(fab, 3)
	if err != nil || len(took) != 3 {
		t.Fatalf("%d of 3 echoes before, %v", len(took), err)
	}
	w.run("shape", "--down")
	time.Sleep(20 * time.Millisecond)
	if took, err = ping(fab, 2); err != nil || len(took) != 0 {
		t.Errorf("%d echoes while the link is down, %v", len(took), err)
	}
	w.run("shape", "--up")
	time.Sleep(20 * time.Millisecond)
	if took, err = ping(fab, 3); err != nil || len(took) != 3 {
		t.Errorf("%d of 3 echoes after, %v", len(took), err)
	}
}

// Bytes are counted by flow class.
func TestWireClasses(t *testing.T) {
	w := newUser(t)
	fab := w.wire("--nodes", "2")
	const n = 1 << 20
	for _, begin := range []string{"ddlemuP1", "\x6c\x9d\x4b\xfc\xf2\xb9\x4a\x56\x01\x00\x00\x00", "anything else"} {
		if _, err := transfer(fab, append([]byte(begin), make([]byte, n)...)); err != nil {
			t.Fatal(err)
		}
	}
	for class, got := range w.link(fab).Classes {
		if got < n || got > n+n/10 {
			t.Errorf("class %d has %d bytes, want a little over %d", class, got, n)
		}
	}
	var s struct {
		Links []struct {
			Classes map[string]uint64 `json:"classes"`
		} `json:"links"`
	}
	if err := json.Unmarshal([]byte(w.run("status", "--json")), &s); err != nil {
		t.Fatal(err)
	}
	if c := s.Links[0].Classes; c["plugin"] < n || c["nccl_bootstrap"] < n || c["other"] < n {
		t.Errorf("status has %v", c)
	}
}

// All traffic together has a verdict. It is VALID if the latency is above the floor of the shaper, otherwise INVALID.
// If the machine's timers are late, it is INVALID for late packets, and for no other reason.
func TestWireVerdict(t *testing.T) {
	verdict := func(lat string) (string, error) {
		w := newUser(t)
		fab := w.wire("--nodes", "2", "--lat", lat)
		defer w.run("down", "t")
		if _, err := fab.Datagrams(0, 1, 500, 1000, time.Millisecond); err != nil {
			return "", err
		}
		time.Sleep(200 * time.Millisecond) // the daemon counts every 100 ms
		return w.run("status", "--last", "--verbose"), nil
	}
	measure.Repeat(t, "20 ms", func() (measure.Result, error) {
		out, err := verdict("20ms")
		return judgeVerdict(out), err
	})
	within(t, "no latency", func() (string, error) { return verdict("0") }, func(s string) bool {
		return strings.Contains(s, "verdict: INVALID") && strings.Contains(s, "shorter than the shaper can emulate")
	})
}

// judgeVerdict judges what `status --last --verbose` says of traffic that should be VALID.
func judgeVerdict(out string) measure.Result {
	r := measure.Result{Got: out}
	if strings.Contains(out, "verdict: VALID") {
		return r
	}
	for line := range strings.Lines(out) {
		if reason, found := strings.CutPrefix(line, "ddlemu: "); found {
			r.Late, r.Wrong = true, r.Wrong || !latePackets.MatchString(reason)
		}
	}
	r.Wrong = r.Wrong || !r.Late || !strings.Contains(out, "verdict: INVALID")
	return r
}

// latePackets matches the reasons of a verdict that say that packets came too late, and the line that sums them up.
var latePackets = regexp.MustCompile(`^host.*: lateness | were later than max\(| of their time late \(limit |` +
	`longer than in the model`)

// Packets that are dropped although the link model does not lose them are reported, and the verdict is INVALID.
func TestWireReportsDrops(t *testing.T) {
	w := newUser(t)
	fab := w.wire("--nodes", "2")
	if took, err := ping(fab, 2); err != nil || len(took) != 2 {
		t.Fatalf("%d of 2 echoes, %v", len(took), err)
	}
	if err := sendTagged(fab); err != nil {
		t.Fatal(err)
	}
	if err := setDown(fab); err != nil {
		t.Fatal(err)
	}
	if took, err := ping(fab, 1); err != nil || len(took) != 0 {
		t.Errorf("%d echoes from a NIC that is down, %v", len(took), err)
	}
	counted, out := regexp.MustCompile(`NIC down [1-9]\d*, malformed or VLAN-tagged 1\b`), ""
	for end := time.Now().Add(5 * time.Second); !counted.MatchString(out) && time.Now().Before(end); {
		out = w.run("status")
	}
	if !counted.MatchString(out) || !strings.Contains(out, "this host lost packets that the link model did not") {
		t.Errorf("status says\n%s", out)
	}
}

// setDown sets node 1's NIC down, as root on that node can.
func setDown(fab *measure.Running) error {
	h, err := nodes.OpenNetlink(fab.Plan.Nodes[1].Namespace)
	if err != nil {
		return err
	}
	defer h.Close()
	eth0, err := h.LinkByName(fab.Plan.Nodes[1].NICs[0].Name)
	if err != nil {
		return err
	}
	return h.LinkSetDown(eth0)
}

// sendTagged sends a frame with a VLAN tag from node 0 to node 1.
func sendTagged(fab *measure.Running) error {
	from, to := fab.Plan.Nodes[0], fab.Plan.Nodes[1].NICs[0]
	return netns.Do(from.Namespace, func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		eth0, err := net.InterfaceByName(from.NICs[0].Name)
		if err != nil {
			return err
		}
		frame := append(slices.Concat([]byte(to.MAC), []byte(from.NICs[0].MAC)), 0x81, 0, 0, 5, 0x08, 0)
		return unix.Sendto(fd, append(frame, make([]byte, 46)...), 0, &unix.SockaddrLinklayer{Ifindex: eth0.Index})
	})
}

// A fabric without traffic uses no CPU time.
func TestWireIdle(t *testing.T) {
	w := newUser(t)
	w.wire("--nodes", "2")
	daemons := w.Daemons()
	if len(daemons) != 1 {
		t.Fatalf("%d daemons", len(daemons))
	}
	within(t, "CPU time in 1 s", func() (time.Duration, error) {
		before, err := cpuTime(daemons[0])
		if err != nil {
			return 0, err
		}
		time.Sleep(time.Second)
		after, err := cpuTime(daemons[0])
		return after - before, err
	}, func(d time.Duration) bool { return d <= 50*time.Millisecond })
}

// cpuTime returns the CPU time of a process, in steps of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	var user, system int64
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, err
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}
