// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// link is one row: two nodes of the kernel datapath with iperf3 between them.
type link struct {
	what    string
	up      []string // arguments of `ddlemu up`, or nil for byHand
	byHand  string   // without ddlemu: the rate of a tbf on a veth pair, bridged or routed
	streams int
	mtu     int
	whole   int // packets that the kernel passes as one GSO packet, 0 = default
}

// links are the rows: shapers and rates, packet sizes, streams.
var links = []link{
	{"htb, no rate", []string{"--set", "shaper=htb", "--bw", "unlimited", "--lat", "0s"}, "", 1, 1500, 0},
	{"htb, no rate, MTU 9000", []string{"--set", "shaper=htb", "--bw", "unlimited", "--lat", "0s"}, "", 1, 9000, 0},
	{"htb, no rate, MTU 65535", []string{"--set", "shaper=htb", "--bw", "unlimited", "--lat", "0s"}, "", 1, 65535, 0},
	{"htb, no rate, no GSO", []string{"--set", "shaper=htb", "--bw", "unlimited", "--lat", "0s"}, "", 1, 1500, 1},
	{"bridge by hand, no rate", nil, bridged, 1, 1500, 0},
	{"routed by hand, no rate", nil, routed, 1, 1500, 0},
	{"wire, no rate, 25 us", []string{"--set", "shaper=wire", "--bw", "unlimited"}, "", 1, 1500, 0},
	{"tbf by hand, 1 Gb/s", nil, "1gbit", 1, 1500, 0},
	{"htb, 1 Gb/s", []string{"--set", "shaper=htb", "--lat", "0s"}, "", 1, 1500, 0},
	{"wire, 1 Gb/s, 25 us", []string{"--set", "shaper=wire"}, "", 1, 1500, 0},
	{"tbf by hand, 10 Gb/s", nil, "10gbit", 1, 1500, 0},
	{"htb, 10 Gb/s", []string{"--set", "shaper=htb", "--bw", "10Gbps", "--lat", "0s"}, "", 1, 1500, 0},
	{"htb, 10 Gb/s, 4 streams", []string{"--set", "shaper=htb", "--bw", "10Gbps", "--lat", "0s"}, "", 4, 1500, 0},
	{"htb, 10 Gb/s, 16 streams", []string{"--set", "shaper=htb", "--bw", "10Gbps", "--lat", "0s"}, "", 16, 1500, 0},
	{"wire, 10 Gb/s, 25 us", []string{"--set", "shaper=wire", "--bw", "10Gbps"}, "", 1, 1500, 0},
	{"htb, 25 Gb/s", []string{"--set", "shaper=htb", "--bw", "25Gbps", "--lat", "0s"}, "", 1, 1500, 0},
	{"wire, 25 Gb/s, 25 us", []string{"--set", "shaper=wire", "--bw", "25Gbps"}, "", 1, 1500, 0},
	{"htb, 40 Gb/s", []string{"--set", "shaper=htb", "--bw", "40Gbps", "--lat", "0s"}, "", 1, 1500, 0},
	{"wire, 40 Gb/s, 25 us", []string{"--set", "shaper=wire", "--bw", "40Gbps"}, "", 1, 1500, 0},
}

// links measures the rates of the kernel datapath.
func (d *driver) links(ctx context.Context, build string) (*section, error) {
	s := newSection("TCP between two nodes", "link", "Gb/s of payload", "CPU s per GB", "ping p50 us", "p99 us")
	for _, l := range links {
		m, err := d.measureLink(ctx, build, l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.what, err)
		}
		s.row(l.what, fmt.Sprintf("%.3g", m.rate/1e9), fmt.Sprintf("%.2f", m.cpu/(m.rate*m.seconds/8e9)), m.ping(0.5),
			m.ping(0.99))
	}
	s.note(
		"iperf3 for 3 s, one stream if not said otherwise, MTU 1500 if not said otherwise, GSO left on; ping beside " +
			"it, every 10 ms. CPU is that of the whole machine, both ends and the ping included.")
	s.note(
		"By hand: with a rate, a veth pair and `tc qdisc add ... tbf rate R burst (400 us of R) limit 1m` at the " +
			"sender; without, two veth pairs into a namespace that joins them by a bridge or as a router.")
	return s, nil
}

// linkFigures are the figures of one row.
type linkFigures struct {
	rate, seconds, cpu float64 // bit/s, s, s
	pings              []float64
}

func (m *linkFigures) ping(q float64) string {
	if len(m.pings) == 0 {
		return "no answer"
	}
	return fmt.Sprintf("%.0f", m.pings[int(q*float64(len(m.pings)-1))])
}

func (d *driver) measureLink(ctx context.Context, build string, l link) (m linkFigures, err error) {
	on, end, err := d.twoNodes(ctx, build, l)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if l.whole > 0 {
		if out, err := on(0, "ip", "link", "set", "eth0", "gso_max_segs",
			strconv.Itoa(l.whole)).CombinedOutput(); err != nil {
			return m, fmt.Errorf("limit GSO: %w: %s", err, out)
		}
	}
	if out, err := on(1, "iperf3", "-s", "-1", "-D").CombinedOutput(); err != nil {
		return m, fmt.Errorf("start iperf3: %w: %s", err, out)
	}
	time.Sleep(300 * time.Millisecond) // until it listens
	began, err := busy()
	if err != nil {
		return m, err
	}
	ping := on(0, "ping", "-n", "-i", "0.01", "-c", "280", "10.77.0.2")
	var answers strings.Builder
	ping.Stdout = &answers
	if err := ping.Start(); err != nil {
		return m, fmt.Errorf("ping: %w", err)
	}
	out, err := on(0, "iperf3", "-c", "10.77.0.2", "-t", "3", "-P", strconv.Itoa(l.streams), "-J").Output()
	_ = ping.Wait() // it fails if an answer is missing, which the quantiles show
	if err != nil {
		return m, fmt.Errorf("iperf3: %w: %s", err, out)
	}
	ended, err := busy()
	if err != nil {
		return m, err
	}
	m = linkFigures{cpu: ended - began, pings: pingTimes(answers.String())}
	m.rate, m.seconds, err = received(out)
	return m, err
}

// received reads the rate in bit/s and the seconds of the receiver from iperf3's report.
func received(iperf3 []byte) (rate, seconds float64, err error) {
	var report struct {
		End struct {
			Received struct {
				Rate    float64 `json:"bits_per_second"`
				Seconds float64 `json:"seconds"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(iperf3, &report); err != nil {
		return 0, 0, fmt.Errorf("read iperf3's report: %w", err)
	}
	return report.End.Received.Rate, report.End.Received.Seconds, nil
}

// pingTimes are the round-trip times in the output of ping, in us, sorted.
func pingTimes(output string) []float64 {
	var times []float64
	for _, line := range strings.Split(output, "\n") {
		if _, text, ok := strings.Cut(line, "time="); ok {
			if ms, err := strconv.ParseFloat(strings.Fields(text)[0], 64); err == nil {
				times = append(times, 1000*ms)
			}
		}
	}
	slices.Sort(times)
	return times
}

// twoNodes makes two nodes and returns functions that run a program on one of them and that remove them.
func (d *driver) twoNodes(ctx context.Context, build string, l link) (on func(node int, args ...string) *exec.Cmd,
	end func() error, err error) {
	if l.up == nil {
		return byHand(ctx, l.byHand)
	}
	ddlemu := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(build, "bin", "ddlemu"), args...)
		cmd.Env = append(os.Environ(), "DDLEMU_DIR="+filepath.Join(d.dir, "links"), "DDLEMU_FABRIC=")
		return cmd
	}
	file := filepath.Join(d.dir, "links.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "base: eth1\nlink:\n  mtu: %d\n", l.mtu), 0o600); err != nil {
		return nil, nil, fmt.Errorf("write a fabric file: %w", err)
	}
	args := append([]string{"up", "--set", "datapath=kernel", "--no-measure", "--nodes", "2", "--name", "links", "--set",
		"subnet=10.77.0.0/16", "-f", file}, l.up...)
	if out, err := ddlemu(args...).CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("ddlemu up: %w: %s", err, out)
	}
	on = func(node int, args ...string) *exec.Cmd {
		return ddlemu(append([]string{"exec", fmt.Sprintf("node%d", node), "--"}, args...)...)
	}
	return on, func() error { return ddlemu("down", "links").Run() }, nil
}

// How byHand connects two nodes without a rate limit.
const (
	bridged = "bridge"
	routed  = "router"
)

// byHand makes two namespaces with ip and tc: connected by a veth pair with a tbf, or by a switch that is a bridge or a
// router.
func byHand(ctx context.Context, how string) (on func(node int, args ...string) *exec.Cmd, end func() error,
	err error) {
	name := func(node int) string { return fmt.Sprintf("ddlemu-speed-%d-%d", os.Getpid(), node) }
	on = func(node int, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", name(node)}, args...)...)
	}
	const nodes = 3 // the third is the switch; a veth pair does not use it
	end = func() error {
		var errs []error
		for n := range nodes {
			errs = append(errs, exec.Command("ip", "netns", "del", name(n)).Run())
		}
		return errors.Join(errs...)
	}
	var commands []string
	for n := range nodes {
		commands = append(commands, "ip netns add "+name(n))
	}
	switch how {
	case bridged, routed:
		commands = append(commands, joined(name, how)...)
	default:
		gigabits, err := strconv.Atoi(strings.TrimSuffix(how, "gbit"))
		if err != nil {
			return nil, nil, fmt.Errorf("rate %s: %w", how, err)
		}
		commands = append(commands,
			fmt.Sprintf("ip link add eth0 netns %s type veth peer name eth0 netns %s", name(0), name(1)),
			"ip -n "+name(0)+" addr add 10.77.0.1/24 dev eth0", "ip -n "+name(1)+" addr add 10.77.0.2/24 dev eth0",
			"ip -n "+name(0)+" link set eth0 up", "ip -n "+name(1)+" link set eth0 up",
			fmt.Sprintf("tc -n %s qdisc add dev eth0 root tbf rate %s burst %d limit 1m", name(0), how,
				gigabits*1e9/8*400/1e6))
	}
	for _, c := range commands {
		words := strings.Fields(c)
		if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("%s: %w: %s", c, err, out), end())
		}
	}
	return on, end, nil
}

// joined returns the commands that connect two nodes by a third.
func joined(name func(int) string, how string) []string {
	var c []string
	if how == bridged {
		c = append(c, "ip -n "+name(2)+" link add br0 type bridge", "ip -n "+name(2)+" link set br0 up")
	} else {
		c = append(c, "ip netns exec "+name(2)+" sysctl -q -w net.ipv4.ip_forward=1")
	}
	for n := range 2 {
		port := fmt.Sprintf("port%d", n)
		c = append(c,
			fmt.Sprintf("ip link add eth0 netns %s type veth peer name %s netns %s", name(n), port, name(2)),
			fmt.Sprintf("ip -n %s addr add 10.77.0.%d/32 dev eth0", name(n), n+1),
			"ip -n "+name(n)+" link set eth0 up", "ip -n "+name(2)+" link set "+port+" up")
		if how == bridged {
			c = append(c, "ip -n "+name(2)+" link set "+port+" master br0",
				"ip -n "+name(n)+" route add 10.77.0.0/24 dev eth0")
			continue
		}
		c = append(c,
			fmt.Sprintf("ip -n %s addr add 10.78.%d.1/32 dev %s", name(2), n, port),
			fmt.Sprintf("ip -n %s route add 10.77.0.%d/32 dev %s", name(2), n+1, port),
			fmt.Sprintf("ip -n %s route add 10.78.%d.1/32 dev eth0", name(n), n),
			fmt.Sprintf("ip -n %s route add 10.77.0.0/24 via 10.78.%d.1", name(n), n))
	}
	return c
}

// busy is the time in s for which the machine's processors have worked (proc_stat(5), in hundredths of a second, which
// USER_HZ is on every Linux that Go supports).
func busy() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the processors' times: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	total := 0.0
	for i, word := range strings.Fields(line)[1:] {
		ticks, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return 0, fmt.Errorf("read the processors' times: %w", err)
		}
		// All columns except idle, iowait, steal, and guest times, which are included in user.
		if i != 3 && i != 4 && i < 7 {
			total += ticks
		}
	}
	return total / 100, nil
}
