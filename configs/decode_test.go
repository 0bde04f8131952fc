// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs/units"
)

// good is a valid file, which the cases of TestDecodeRefuses change.
const good = `nodes: 2
nics_per_node: 2
link:
  bandwidth: 100Gbps
  latency: 5us
links:
  - match: node0:node1
    latency: 1ms
transport:
  kind: tcp
`

// refused are invalid files: the text that is replaced in good, the replacement, and the error.
var refused = []struct{ old, text, want string }{
	{"nodes: 2", "nodes: 0", "f.yaml:1: nodes: 0 is out of range: must be 1 to 256"},
	{"nodes: 2", "nodes: 300", "f.yaml:1: nodes: 300 is out of range"},
	{"nodes: 2", "nodes: -2", `f.yaml:1: nodes: "-2" is not a whole number: must be 1 to 256`},
	{"nodes: 2", "nodes: 0755", `f.yaml:1: nodes: "0755" is not a whole number`},
	{"nodes: 2", "nodes: 1e1", `f.yaml:1: nodes: "1e1" is not a whole number`},
	{"nodes: 2", "nodes: [2]", "f.yaml:1: nodes: a list was given: must be a single value"},
	{"nodes: 2", "nodes:", "f.yaml:1: nodes: nothing was given: must be a single value"},
	{"nodes: 2", "nodes: 200", "f.yaml:1: nodes: 200 nodes with 2 NICs each are 400 NICs: at most 256"},
	{"nodes: 2", "nodes: 2\nnvlinks_per_gpu: 19", "f.yaml:2: nvlinks_per_gpu: 19 is out of range: must be 0 to 18"},
	{"nodes: 2", "nodes: 2\ngpus_per_node: 0", `f.yaml:2: gpus_per_node: "0" is out of range: must be 1 to 64`},
	{"nodes: 2", "nodes: 2\ngpus_per_node: -1", `f.yaml:2: gpus_per_node: "-1" is not a whole number: must be 1 to 64`},
	{"nodes: 2", "nodes: 2\ntopology: {kind: leaf-spine, leaves: 2, spines: 0, trunk: {latency: 1us}}",
		`f.yaml:2: topology.spines: "0" is out of range: must be 1 to 256`},
	{"nodes: 2", "nodes: 2\ntopology: {kind: rail, spines: 257, trunk: {latency: 1us}}",
		"f.yaml:2: topology.spines: 257: must be 1 to 256"},
	{"nodes: 2", "nodes: 2\ngpus_per_node: 65", "f.yaml:2: gpus_per_node: 65 is out of range: must be 1 to 64"},
	{"nodes: 2", "nodes: 2\nnodes: 2", "f.yaml:2: nodes: given twice"},
	{"nodes: 2", "nodes: 2\nNodes: 2", `f.yaml:2: "Nodes" is not a key here: did you mean nodes`},
	{"nodes: 2", "nodes: 2\nseed: -1", `f.yaml:2: seed: "-1" is not a seed`},
	{"nodes: 2", "nodes: 2\ntime_scale: 2048",
		`f.yaml:2: time_scale: "2048" is not a time scale: must be 1 to 1024, or auto`},
	{"nodes: 2", "nodes: 2\nname: a/b", `f.yaml:2: name: "a/b" is not a name`},
	{"nodes: 2", "nodes: 2\ndescription: \"\\a\"", "f.yaml:2: description: must be printable"},
	{"nodes: 2", "nodes: 2\nsources: [a, \"\\a\"]", "f.yaml:2: sources[1]: must be printable"},
	{"nodes: 2", "nodes: 2\nsources: a", `f.yaml:2: sources: "a" was given: must be a list`},
	{"nodes: 2", "nodes: 2\nbase: ndr40", `f.yaml:2: base: "ndr40" is not a profile: did you mean ndr400`},
	{"nodes: 2", "nodes: 2\njitter_table: [1]", "f.yaml:2: jitter_table: has 1 quantiles: must have 2 to 4096"},
	{"nodes: 2", "nodes: 2\njitter_table: [1, 0]", "f.yaml:2: jitter_table: 0 comes after 1"},
	{"nodes: 2", "nodes: 2\njitter_table: [0, .inf]", `f.yaml:2: jitter_table[1]: ".inf" is not a number`},
	{"nodes: 2", "nodes: 2\njitter_table: [0, 2000]", "f.yaml:2: jitter_table: quantile 2000 is out of range"},
	{"nodes: 2", "nodes: 2\nhost: {per_message: -1us}", `f.yaml:2: host.per_message: "-1us" is not a duration`},
	{"nodes: 2", "nodes: 2\nhost: {copy: 3}", "f.yaml:2: host.copy: "},
	{"nodes: 2", "nodes: 2\nhost: {copy: 11Tbps}", "f.yaml:2: host.copy: 11Tbps is out of range"},
	{"nodes: 2", "nodes: 2\ndatapath: kernel\nhost: {per_message: 1us}",
		"f.yaml:3: host: given for the datapath kernel"},
	{"nodes: 2", "nodes: 2\nendpoint: {gap: 11s}", "f.yaml:2: endpoint.gap: 11s is out of range: must be 0s to 10s"},
	{"nics_per_node: 2", "nics_per_node: 33", "f.yaml:2: nics_per_node: 33 is out of range: must be 1 to 32"},
	{"100Gbps", "100", `f.yaml:4: link.bandwidth: "100" has no unit`},
	{"100Gbps", "10GB", `f.yaml:4: link.bandwidth: "10GB" is ambiguous`},
	{"100Gbps", "0Gbps", `f.yaml:4: link.bandwidth: "0Gbps" is zero`},
	{"100Gbps", "-1Gbps", `f.yaml:4: link.bandwidth: "-1Gbps" is not a bandwidth`},
	{"100Gbps", "1kbps", "f.yaml:4: link.bandwidth: 1kbps is out of range: must be 1Mbps to 10Tbps, or unlimited"},
	{"  bandwidth: 100Gbps\n", "", "f.yaml: link.bandwidth: missing"},
	{"  latency: 5us\n", "", "f.yaml: link.latency: missing"},
	{"latency: 5us", "latncy: 5us", `f.yaml:5: link: "latncy" is not a key here: did you mean latency`},
	{"5us", "5", `f.yaml:5: link.latency: "5" is not a duration`},
	{"5us", "11s", "f.yaml:5: link.latency: 11s is out of range: must be 0s to 10s"},
	{"5us", "5us\n  mtu: 100", "f.yaml:6: link.mtu: 100 is out of range: must be 256 to 65536"},
	{"5us", "5us\n  header: 4096", "f.yaml:6: link.header: 4096 is out of range: must be 0 to 4095, below the mtu"},
	{"5us", "5us\n  framing: 70000", "f.yaml:6: link.framing: 70000 is out of range: must be 0 to 65536"},
	{"5us", "5us\n  loss: 2", `f.yaml:6: link.loss: "2" is not a loss`},
	{"5us", "5us\n  jitter: gauss:1us", `f.yaml:6: link.jitter: "gauss:1us" has the unknown kind "gauss"`},
	{"5us", "5us\n  jitter: 11s", "f.yaml:6: link.jitter: normal:11s is out of range"},
	{"5us", "5us\n  jitter: table:1us", "f.yaml:6: link.jitter: \"table:1µs\" needs the fabric's jitter_table"},
	{"5us", "5us\n  queue: 1K", "f.yaml:6: link.queue: lossless:1K is out of range: must be 64K to 4G"},
	{"5us", "5us\n  loss: 100%",
		"f.yaml:6: link.loss: 100% is too much: a link of datapath shm can lose 72% of the packets, or in long bursts 39% on average; to let nothing through, take the link down with `ddlemu shape --down` or, in the file, up: false"},
	{"    latency: 1ms", "    loss: gilbert:0.01,1e-3", "f.yaml:8: links[0].loss: gilbert:0.01,0.001,1,0 is too much"},
	{"5us", "5us\n  ecn: lots", `f.yaml:6: link.ecn: "lots" is not an ECN threshold: write 200K or none`},
	{"5us", "5us\n  ecn: 5G", "f.yaml:6: link.ecn: 5G is out of range: must be 0 to 4G"},
	{"    latency: 1ms", "    ecn: 5G", "f.yaml:8: links[0].ecn: 5G is out of range"},
	{"5us", "5us\n  ecn: 2M",
		"f.yaml:6: link.ecn: 2M is not below the queue limit, lossless:1M: one sender fills it before a packet is marked"},
	{"5us", "5us\n  queue: taildrop:100K\n  ecn: 100K",
		"f.yaml:7: link.ecn: 100K is not below the queue limit, taildrop:100K"},
	{"    latency: 1ms", "    ecn: 1M", "f.yaml:8: links[0].ecn: 1M is not below the queue limit, lossless:1M"},
	{"    latency: 1ms", "    queue: fair:2M\n  - match: node0>node1\n    ecn: 2M",
		"f.yaml:10: links[1].ecn: 2M is not below the queue limit, fair:2M"},
	// of the port
	{"    latency: 1ms", "    queue: 4M\n  - match: node0\n    ecn: 2M",
		"f.yaml:10: links[1].ecn: 2M is not below the queue limit, lossless:1M"},
	{"5us", "5us\n  ecn: 200K\ntopology: {kind: ring, trunk: {latency: 1us, queue: taildrop:100K}}",
		"f.yaml:7: topology.trunk.ecn: 200K is not below the queue limit, taildrop:100K"},
	{"  kind: tcp", "  kind: tcp\n  congestion: bbr",
		`f.yaml:11: transport.congestion: "bbr" is not one of none, reno, cubic`},
	{"  kind: tcp", "  kind: rdma\n  congestion: reno",
		`f.yaml:11: transport.congestion: "reno" given for transport rdma: only tcp has it`},
	{"  kind: tcp", "  kind: tcp\n  congestion: reno\ndatapath: kernel",
		"f.yaml:11: transport.congestion: reno given for the datapath kernel: there it is the kernel's own cubic"},
	{"5us", "5us\n  ecn: 64K\ndatapath: kernel", "f.yaml:6: link.ecn: given for the datapath kernel"},
	{"    latency: 1ms", "    ecn: 64K\ndatapath: kernel", "f.yaml:8: links[0].ecn: given for the datapath kernel"},
	{"5us", "5us\n  queue: fair:1M\ndatapath: kernel",
		"f.yaml:6: link.queue: fair:1M given for the datapath kernel: there a queue is lossless or taildrop"},
	{"    latency: 1ms", "    queue: fair\ndatapath: kernel",
		"f.yaml:8: links[0].queue: fair given for the datapath kernel"},
	{"nodes: 2", "nodes: 2\ndatapath: kernel\ntopology: {kind: leaf-spine, leaves: 2, trunk: {latency: 1us}}",
		"f.yaml:3: topology: leaf-spine: the kernel datapath has the topology star only; use --set datapath=shm"},
	{"kind: tcp", "kind: rdma\ndatapath: kernel",
		"f.yaml:10: transport: rdma, but the kernel datapath is real TCP: add --set transport=tcp"},
	{"    latency: 1ms", "    mtu: 1500\ndatapath: kernel",
		"f.yaml:8: links[0].mtu: 1500, others have 4096: the kernel datapath has one for all NICs"},
	{"5us", "5us\n  queue: taildrop", `f.yaml:6: link.queue: "taildrop" has no size`},
	{"5us", "5us\n  up: yes", `f.yaml:6: link.up: "yes" is not true or false`},
	{"node0:node1", "rack0",
		`f.yaml:7: links[0].match: "rack0" does not name links: the switch of the topology star has no name; name links as`},
	{"node0:node1", "node0:node2",
		"f.yaml:7: links[0].match: \"node0:node2\" names node 2: the fabric has node 0 to 1"},
	{"node0:node1", "node0.nic2", "f.yaml:7: links[0].match: \"node0.nic2\" names NIC 2"},
	{"match: node0:node1\n    latency", "latency", "f.yaml:7: links[0].match: missing"},
	{"\n    latency: 1ms", "", "f.yaml:7: links[0]: changes nothing"},
	{"latency: 1ms", "latency: 1m", "f.yaml:8: links[0].latency: 1m0s is out of range"},
	{"latency: 1ms", "jitter: table:1us", "f.yaml:8: links[0].jitter: \"table:1µs\" needs"},
	{"latency: 1ms", "header: 5000", "f.yaml:8: links[0].header: 5000 is out of range"},
	{"  - match: node0:node1\n    latency: 1ms", "  - node0",
		`f.yaml:7: links[0]: "node0" was given: must hold keys: match`},
	{"kind: tcp", "kind: udp", `f.yaml:10: transport.kind: "udp" is not one of tcp, rdma`},
	{"kind: tcp", "kind: tcp\n  window: 1K", "f.yaml:11: transport.window: 1K is out of range: must be 4K to 1G"},
	{"kind: tcp", "kind: tcp\n  send_buffer: 0", "f.yaml:11: transport.send_buffer: 0 is out of range"},
	{"kind: tcp", "kind: tcp\n  rto: 1ns", "f.yaml:11: transport.rto: 1ns is out of range: must be 1µs to 10m0s"},
	{"kind: tcp", "kind: tcp\n  timeout: 1ms", "f.yaml:11: transport.timeout: 1ms is out of range: must be 200ms"},
	{"kind: tcp", "kind: tcp\n  retry_count: 3",
		`f.yaml:11: transport.retry_count: "3" given for transport tcp: only rdma has it`},
	{"kind: tcp", "kind: rdma\n  window: 1M",
		`f.yaml:11: transport.window: "1M" given for transport rdma: only tcp has it`},
	{"kind: tcp", "kind: rdma\n  recovery: none",
		`f.yaml:11: transport.recovery: "none" is not one of go-back-n, selective-repeat`},
	{"kind: tcp", "kind: rdma\n  retry_count: 0",
		"f.yaml:11: transport.retry_count: 0 is out of range: must be 1 to 63"},
	{"kind: tcp", "<<: {kind: tcp}", `f.yaml:10: transport: "<<" is not a key here`},
	{"nodes: 2", "nodes: 2\n\tlink: x", "f.yaml:2: is not YAML: found a tab character"},
	{"latency: 5us", "latency: 5us\n   mtu: 9000", "f.yaml:6: is not YAML: mapping values are not allowed"},
	{"nodes: 2", "nodes: [2", "f.yaml:2: is not YAML: did not find expected ',' or ']'"},
	{"  latency: 5us", "  jitter: [1\n  latency: 5us", "f.yaml:5: is not YAML: did not find expected ',' or ']'"},
	{"latency: 5us", "latency: {5us", "f.yaml:5: is not YAML: did not find expected ',' or '}'"},
	{"nodes: 2", "nodes: 2: 3", "f.yaml:1: is not YAML: mapping values are not allowed"},
	{good, "{nodes: 2", "f.yaml:1: is not YAML: did not find expected ',' or '}'"},
	{"5us", "5us\n  name: \"a", "f.yaml:6: is not YAML: found unexpected end of stream"},
	{"nodes: 2", "nodes: 2\nname: \x01", "f.yaml: is not YAML: control characters are not allowed"},
	{"kind: tcp\n", "kind: tcp\n---\nnodes: 2\n", "f.yaml:11: a second document"},
	{good, "", "f.yaml: the file is empty: write a fabric into it"},
	{good, "- 1", "f.yaml:1: must hold keys such as nodes: and link:"},
	{good, "a: *x", "f.yaml: is not YAML: unknown anchor"},
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range refused {
		if !strings.Contains(good, c.old) {
			t.Fatalf("%q is not in the good file", c.old)
		}
		_, err := Decode("f.yaml", []byte(strings.Replace(good, c.old, c.text, 1)))
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v; want an *Error", c.text, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	if _, err := Decode("f.yaml", []byte(good)); err != nil {
		t.Errorf("the good file: %v", err)
	}
}

func TestDecodeDefaultsAndBase(t *testing.T) {
	plain, err := Decode("dir/mine.yaml",
		[]byte("link: {bandwidth: 1Gbps, latency: 1ms}\ntransport: {kind: tcp, window: 1M}"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Name = "mine"
	want.Link.Bandwidth, want.Link.Latency = units.Gbps, time.Millisecond
	want.Transport = DefaultTransport(TCP)
	want.Transport.Window = units.MiB
	if d := cmp.Diff(&want, plain); d != "" {
		t.Errorf("without base (-want +got):\n%s", d)
	}
	based, err := Decode("mine.yaml", []byte("base: efa-p4d\nlink: {loss: 1%}\ntransport: {retry_count: 3}"))
	if err != nil {
		t.Fatal(err)
	}
	efa, err := Profile("efa-p4d")
	if err != nil {
		t.Fatal(err)
	}
	efa.Name, efa.Description = "mine", ""
	efa.Link.Loss.P = 0.01
	efa.Transport.RetryCount = 3
	if d := cmp.Diff(efa, based); d != "" {
		t.Errorf("with base (-want +got):\n%s", d)
	}
}

// If an override is invalid only together with a value that it inherits, the error is
// at the override.
func TestDecodePlacesInheritedClash(t *testing.T) {
	_, err := Decode("f.yaml", []byte("base: eth1\nlink: {header: 1400}\nlinks:\n  - match: node0\n    mtu: 1000\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "f.yaml:4: links[0].header: 1400 is out of range") {
		t.Errorf("got %v", err)
	}
}

// Several overrides may change the queue and the ECN threshold of the same link.
func TestDecodeECNOfSeveralOverrides(t *testing.T) {
	const head = "base: eth1\nnodes: 4\ntopology: {kind: ring, trunk: {latency: 1us}}\nlink: {queue: 1M}\nlinks:\n"
	for _, c := range []struct{ links, want string }{
		{"  - {match: node0, queue: 4M}\n  - {match: node0, ecn: 2M}\n", ""},
		{"  - {match: 'node0>node1', queue: 4M}\n  - {match: node0:node1, ecn: 2M}\n",
			"f.yaml:7: links[1].ecn: 2M is not below"},
		{"  - {match: 's*', queue: 4M}\n  - {match: 's*', ecn: 2M}\n", ""},
		{"  - {match: 's*', ecn: 500K}\n  - {match: 's*', queue: 400K}\n", "f.yaml:7: links[1].ecn: 500K is not below"},
	} {
		_, err := Decode("f.yaml", []byte(head+c.links))
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %s, want %q", c.links, got, c.want)
		}
	}
}

func TestFabricRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFabric(t)
		if err := f.Validate(); err != nil {
			t.Fatal("drew an invalid fabric: ", err)
		}
		if d := cmp.Diff(f, roundTrip(t, f)); d != "" {
			text, _ := f.Encode()
			t.Fatalf("printed and read again (-want +got):\n%s\n%s", d, text)
		}
	})
}

func drawFabric(t *rapid.T) *Fabric {
	f := Default()
	f.Name = rapid.StringMatching(`[a-z0-9][a-zA-Z0-9._-]{0,20}`).Draw(t, "name")
	f.Description = rapid.StringOf(rapid.RuneFrom([]rune("aé: #'\"\n-{}%0"))).Draw(t, "description")
	f.Sources = rapid.SampledFrom([][]string{nil, {"1.10"}, {"yes", "a: b"}}).Draw(t, "sources")
	f.Nodes = rapid.IntRange(2, 16).Draw(t, "nodes")
	f.NICsPerNode = rapid.IntRange(1, 16).Draw(t, "nics")
	f.GPUsPerNode = rapid.IntRange(0, MaxGPUsPerNode).Draw(t, "gpus")
	f.NVLinksPerGPU = rapid.IntRange(0, MaxNVLinks).Draw(t, "nvlinks")
	f.Seed = rapid.Uint64().Draw(t, "seed")
	f.TimeScale = rapid.IntRange(0, MaxTimeScale).Draw(t, "scale")
	f.Link = drawLink(t)
	f.Endpoint = Endpoint{drawTime(t, "o"), drawTime(t, "g")}
	if !f.OnKernel() && rapid.Bool().Draw(t, "host") {
		f.Host = Host{drawTime(t, "per message"),
			rapid.SampledFrom([]units.Bandwidth{units.Unlimited, units.Mbps, 26400 * units.Mbps}).Draw(t, "copy")}
	}
	f.CPU = rapid.SampledFrom([]string{"", AMD, Intel, HostCPU}).Draw(t, "cpu")
	f.NCCLView = rapid.SampledFrom([]string{"", FabricView, HostView}).Draw(t, "view")
	if rapid.Bool().Draw(t, "gpudirect given") {
		direct := rapid.Bool().Draw(t, "gpudirect")
		f.GPUDirect = &direct
	}
	f.JitterTable = rapid.SampledFrom([][]float64{nil, {-1, 0.1, 3e-7}}).Draw(t, "table")
	if f.JitterTable != nil {
		f.JitterTable = []float64{-1, 3e-7, 0.1}
	}
	if rapid.Bool().Draw(t, "tcp") {
		f.Transport = DefaultTransport(TCP)
		f.Transport.Window = units.Size(rapid.Int64Range(int64(MinBuffer), int64(MaxBuffer)).Draw(t, "window"))
		f.Transport.Congestion = rapid.SampledFrom([]string{"", NoCongestion, Reno, Cubic}).Draw(t, "congestion")
	} else {
		f.Transport.Recovery = rapid.SampledFrom([]string{GoBackN, SelectiveRepeat}).Draw(t, "recovery")
	}
	for range rapid.IntRange(0, 3).Draw(t, "links") {
		f.Links = append(f.Links, drawOverride(t))
	}
	return &f
}

func drawTime(t *rapid.T, name string) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(MaxLatency)).Draw(t, name))
}

func drawLink(t *rapid.T) Link {
	l := Link{
		Bandwidth: units.Bandwidth(rapid.Uint64Range(uint64(MinBandwidth), uint64(MaxBandwidth)).Draw(t, "bandwidth")),
		Latency:   drawTime(t, "latency"),
		Jitter:    drawJitter(t),
		Loss:      drawLoss(t),
		Queue:     drawQueue(t, 64*units.KiB),
		// below any queue, so that every override's is
		ECN:     units.Size(rapid.SampledFrom([]int64{0, 1, 64<<10 - 1}).Draw(t, "ecn")),
		MTU:     rapid.IntRange(MinMTU, MaxMTU).Draw(t, "mtu"),
		Framing: rapid.IntRange(0, MaxMTU).Draw(t, "framing"),
		Up:      rapid.Bool().Draw(t, "up"),
	}
	if l.Loss.validateModelled() != nil {
		l.Loss = Loss{P: MaxLoss}
	}
	l.Header = rapid.IntRange(0, MinMTU-1).Draw(t, "header") // so that every override's MTU is above it
	if rapid.Bool().Draw(t, "unlimited") {
		l.Bandwidth = units.Unlimited
	}
	return l
}

func drawOverride(t *rapid.T) LinkOverride {
	l := drawLink(t)
	o := LinkOverride{Match: rapid.SampledFrom([]string{"*", "node0:node1", "node0>node1", "1"}).Draw(t, "match")}
	fields := []func(){
		func() { o.Bandwidth = &l.Bandwidth }, func() { o.Latency = &l.Latency }, func() { o.Jitter = &l.Jitter },
		func() { o.Loss = &l.Loss }, func() { o.Queue = &l.Queue }, func() { o.ECN = &l.ECN },
		func() { o.MTU = &l.MTU },
		func() { o.Header = &l.Header }, func() { o.Framing = &l.Framing }, func() { o.Up = &l.Up },
	}
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(fields)-1), 1, len(fields), rapid.ID).Draw(t,
		"fields") {
		fields[i]()
	}
	return o
}

// A text that is accepted describes a valid fabric that survives being printed;
// one that is refused is refused in one line.
func FuzzDecode(f *testing.F) {
	f.Add(good)
	f.Add("base: ndr400\nlinks:\n - {match: '*', up: false}\n")
	f.Add(
		"base: wan-metro\ntransport: {congestion: cubic}\nlink: {queue: taildrop:4M, ecn: 1M}\nlinks: [{match: '*', ecn: none}]")
	f.Add("a: &x [*x]")
	f.Add("sources: &x [*x]\nlink: {bandwidth: 1Gbps, latency: 0}")
	f.Add("link: &l {bandwidth: 1Gbps, latency: 0, <<: *l}")
	f.Add(
		"base: ndr400\nnodes: 4\ntopology: {kind: leaf-spine, leaves: 2, oversubscription: 2:1, trunk: {latency: 1us}}\nlinks: [{match: 'leaf*', up: false}]")
	f.Add("base: ndr400\ntopology: {kind: torus, dims: [2], trunk: {latency: 1us, bandwidth: 1Gbps}}")
	f.Add(
		"base: ndr400\ntopology:\n  kind: custom\n  switches: [a, b]\n  attach: [{match: '0', switch: a}, {match: '1', switch: b}]\n  links: [{between: 'a:b', latency: 1us}]\n  routes: [{match: '0>1', via: [a, b]}]")
	f.Fuzz(func(t *testing.T, text string) {
		fab, err := Decode("f.yaml", []byte(text))
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("refused with %q", fmt.Sprint(err))
			}
			return
		}
		if d := cmp.Diff(fab, roundTrip(t, fab)); d != "" {
			t.Errorf("printed and read again (-want +got):\n%s", d)
		}
	})
}
