// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
)

func flagSet(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFabric(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

// environ is an environment of names and values.
func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// writeFile writes a fabric file and returns its name.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoadLayers(t *testing.T) {
	file := writeFile(t, "base: eth10\nnodes: 3\nlink: {latency: 1ms, loss: 1%}\n"+
		"links: [{match: 'node0:node1', latency: 9ms, bandwidth: 2Gbps}]\n")
	env := environ("DDLEMU_NODES", "4", "DDLEMU_LAT", "2ms", "DDLEMU_SEED", "7", "DDLEMU_NODE", "1")
	got, err := Load(configs.Source{File: file, Getenv: env},
		flagSet(t, "--lat", "3ms", "--set=nics_per_node=2", "--set=link.ecn=64K"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := configs.Profile("eth10")
	if err != nil {
		t.Fatal(err)
	}
	bandwidth := 2 * units.Gbps
	want.Name, want.Description = "mine", ""
	want.Nodes, want.NICsPerNode, want.Seed = 4, 2, 7
	want.Link.Latency, want.Link.Loss.P, want.Link.ECN = 3*time.Millisecond, 0.01, 64*units.KiB
	// The flag is for all links, so the file's latency for some is gone.
	want.Links = []configs.LinkOverride{{Match: "node0:node1", LinkPatch: configs.LinkPatch{Bandwidth: &bandwidth}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// An override that a flag for all links leaves nothing of is no error.
func TestLoadFlagEmptiesOverride(t *testing.T) {
	file := writeFile(t, "base: eth10\nlinks: [{match: 'node0:node1', latency: 9ms}]\n")
	f, err := Load(configs.Source{File: file, Getenv: environ()}, flagSet(t, "--lat=1us"))
	if err != nil || len(f.Links) != 0 {
		t.Errorf("got %+v, %v; want no override left", f, err)
	}
}

func TestLoadTransport(t *testing.T) {
	for _, c := range []struct {
		profile, flag string
		want          configs.Transport
	}{
		{"wan-region", "tcp", configs.Transport{Kind: configs.TCP, RTO: 200 * time.Millisecond,
			SendBuffer: 16 * units.MiB, Window: 16 * units.MiB, Congestion: configs.Cubic,
			Timeout: configs.DefaultTransport(configs.TCP).Timeout}},
		{"wan-region", "rdma", configs.DefaultTransport(configs.RDMA)},
		{"efa-p5", "tcp", configs.DefaultTransport(configs.TCP)},
	} {
		f, err := Load(configs.Source{Profile: c.profile, Getenv: environ()}, flagSet(t, "--set", "transport="+c.flag))
		if err != nil || f.Transport != c.want {
			t.Errorf("%s as %s: %+v, %v; want %+v", c.profile, c.flag, f, err, c.want)
		}
	}
}

func TestFlagsRefuseAtOnce(t *testing.T) {
	for _, arg := range []string{"--bw=100", "--bw=0Gbps", "--lat=5", "--set=link.loss=2", "--set=link.jitter=x", "--set=link.queue=taildrop",
		"--nodes=x", "--set=transport=udp", "--set=time_scale=0"} {
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddFabric(fs)
		name, _, _ := strings.Cut(arg, "=")
		if err := fs.Parse([]string{arg}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v; want an error that names %s", arg, err, name)
		}
	}
}

// A command's own flag of the same name stays, and is read.
func TestAddFlagsKeepsOthers(t *testing.T) {
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	scale := fs.String("time-scale", "auto", "")
	AddFabric(fs)
	if err := fs.Parse([]string{"--set=time_scale=4"}); err != nil || *scale != "4" {
		t.Fatalf("%v, %q", err, *scale)
	}
	f, err := Load(configs.Source{Profile: "eth1", Getenv: environ("DDLEMU_TIME_SCALE", "8")}, fs)
	if err != nil || f.TimeScale != 4 {
		t.Errorf("got %+v, %v; want the flag's time scale 4", f, err)
	}
}

// linkFlags are the flags of `ddlemu shape`.
func linkFlags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("shape", pflag.ContinueOnError)
	AddShape(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestLinks(t *testing.T) {
	p, err := Links(linkFlags(t, "--bw=100Gbps", "--lat=5us"))
	bandwidth, latency := 100*units.Gbps, 5*time.Microsecond
	if d := cmp.Diff(configs.LinkPatch{Bandwidth: &bandwidth, Latency: &latency}, p); err != nil || d != "" {
		t.Errorf("%v, (-want +got):\n%s", err, d)
	}
	if p, err := Links(linkFlags(t)); err != nil || !p.Empty() {
		t.Errorf("no flags: %+v, %v; want no change", p, err)
	}
	for arg, want := range map[string]string{
		"--bw=11Tbps":   "--bw: 11Tbps is out of range",
		"--lat=11s":     "--lat: 11s is out of range",
		"--jitter=11s":  "--jitter: normal:11s is out of range",
		"--queue=8G":    "--queue: lossless:8G is out of range",
		"--jitter=20us": "",
	} {
		_, err := Links(linkFlags(t, arg))
		var e *configs.Error
		if want == "" && err != nil || want != "" && (!errors.As(err, &e) || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", arg, err, want)
		}
	}
}

func TestLoadEverySetting(t *testing.T) {
	args := map[string]string{
		"nodes": "4", "gpus-per-node": "2", "node-gpus": "8", "nics-per-node": "3", "nvlinks-per-gpu": "12",
		"gpu": "h100-sxm", "node-time": "on", "nvlink": "mesh", "nvlink-domain": "2",
		"cpu": "intel", "transport": "tcp", "congestion": "cubic", "ecmp": "pair", "seed": "9", "time-scale": "16",
		"bw": "5Gbps", "lat": "7us", "jitter": "pareto:2us", "loss": "0.5%", "queue": "taildrop:2M",
		"ecn":      "none", // the datapath kernel has no other, nor another transport
		"datapath": "kernel", "shaper": "wire", "subnet": "10.99.0.0/16", "nccl-view": "host", "nccl-latency": "75us",
		"clock": "real",
	}
	want, err := configs.Profile("hdr200")
	if err != nil {
		t.Fatal(err)
	}
	want.Nodes, want.GPUsPerNode, want.NICsPerNode, want.Seed, want.TimeScale = 4, 2, 3, 9, 16
	if want.GPU, err = configs.BuiltInGPU("h100-sxm"); err != nil {
		t.Fatal(err)
	}
	want.NVLink, want.NVLinkDomain, want.NodeTime = configs.MeshNVLink, 2, true
	want.Node.GPUs, want.NVLinksPerGPU, want.CPU, want.Clock = 8, 12, configs.Intel, configs.RealClock
	want.Datapath, want.Shaper, want.Subnet, want.NCCLView = configs.Kernel, configs.WireShaper, "10.99.0.0/16",
		configs.HostView
	want.NCCL.Latency = configs.ShownLatency{Time: 75 * time.Microsecond}
	want.Transport = configs.DefaultTransport(configs.TCP)
	want.Transport.Congestion = configs.Cubic
	want.Link.Bandwidth, want.Link.Latency, want.Link.Jitter = 5*units.Gbps, 7*time.Microsecond,
		configs.Jitter{Kind: configs.ParetoJitter, Value: 2000}
	want.Link.Loss, want.Link.Queue = configs.Loss{P: 0.005},
		configs.Queue{Bytes: 2 * units.MiB, Policy: configs.TailDrop}
	for _, m := range configs.LinkParams() { // one that is not above: its text is read back
		if args[m.Flag] == "" {
			args[m.Flag] = m.Text(&want.Link)
		}
	}
	var byFlag, bySet, byEnv []string
	for _, s := range configs.Settings() {
		if s.Daily {
			byFlag = append(byFlag, "--"+s.Flag, args[s.Flag])
		}
		bySet = append(bySet, "--set", s.Field+"="+args[s.Flag])
		if s.Env != "" {
			byEnv = append(byEnv, s.Env, args[s.Flag])
		}
	}
	check := func(by string, got *configs.Fabric, err error) {
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", by, err, d)
		}
	}
	got, err := Load(configs.Source{Profile: "hdr200", Getenv: environ()}, flagSet(t, bySet...))
	check("--set", got, err)
	got, err = Load(configs.Source{Profile: "hdr200", Getenv: environ(byEnv...)}, flagSet(t, byFlag...))
	check("flags over the environment", got, err)
	got, err = Load(configs.Source{Profile: "hdr200", Getenv: environ(byEnv...)}, flagSet(t))
	check("environment beside flags", got, err)
	got, err = configs.Load(configs.Source{Profile: "hdr200", Getenv: environ(byEnv...)})
	check("environment", got, err)
}

func TestLoadRefuses(t *testing.T) {
	small := writeFile(t, "base: eth1\nlink: {queue: 64K}\n")
	for _, c := range []struct {
		name string
		src  configs.Source
		args []string
		want string
	}{
		{"out of range", configs.Source{Profile: "eth1"}, []string{"--lat=1m"}, "--lat: 1m0s is out of range"},
		{"clashes with the file", configs.Source{File: small}, []string{"--bw=100Gbps", "--set=link.queue=32K"},
			"--set link.queue: lossless:32K is out of range: must be 64K"},
		{"override beyond the nodes", configs.Source{File: "../examples/rails.yaml"}, []string{"--nodes=3"},
			"../examples/rails.yaml:22: links[2].match: "},
		{"variable out of range", configs.Source{Profile: "eth1", Getenv: environ("DDLEMU_NODES", "0")}, nil,
			"DDLEMU_NODES: 0 is out of range: must be 1 to 256"},
		{"CPU of another architecture", configs.Source{Profile: "ndr400"}, []string{"--gpu=gb200", "--set=cpu=amd"},
			"--set cpu: amd: gb200 is on a CPU of arm64"},
		{"NVLink of a card", configs.Source{Profile: "ndr400"}, []string{"--gpu=l40s", "--set=nvlink=mesh"},
			"--set nvlink: mesh: l40s has no NVLink"},
		{"NVLink of no kind", configs.Source{Profile: "ndr400"}, []string{"--set=nvlink=mesh"},
			"--set nvlink: mesh: a kind of GPU has NVLinks: give gpu or --gpu"},
		{"mesh of too many", configs.Source{Profile: "ndr400"},
			[]string{"--gpu=v100", "--set=nvlink=mesh", "--set=gpus_per_node=8"},
			"--set gpus_per_node: 8: 6 NVLinks connect a GPU with 6 others at most"},
		{"GPUs beyond the graph", configs.Source{Profile: "ndr400"}, []string{"--gpu=v100", "--set=gpus_per_node=16"},
			"--set gpus_per_node: 16: the NVLinks of v100 connect 8 GPUs"},
		{"node time of no kind", configs.Source{Profile: "ndr400"}, []string{"--set", "node_time=on"},
			"--set node_time: a kind of GPU has times: give gpu or --gpu"},
		{"node time of no kind in a variable", configs.Source{Profile: "ndr400",
			Getenv: environ("DDLEMU_NODE_TIME", "on")}, nil, "DDLEMU_NODE_TIME: a kind of GPU has times"},
		{"more GPUs than a system has", configs.Source{Profile: "hgx-h100-ndr400"}, []string{"--set=gpus_per_node=16"},
			"profile hgx-h100-ndr400: node.gpus: 8: gpus_per_node, which are those that a job uses, are 16"},
		{"a vendor for a system with Grace", configs.Source{Profile: "gb200-nvl72"}, []string{"--set=cpu=intel"},
			"--set cpu: intel: gb200 is on a CPU of arm64"},
		{"NVLink for a system with cards", configs.Source{Profile: "a4"}, []string{"--gpu=l40s", "--set=nvlink=switch"},
			"--set nvlink: switch: l40s has no NVLink"},
		{"no such system", configs.Source{Profile: "hgx-h100-ndr40"}, nil,
			`"hgx-h100-ndr40" is not a profile: did you mean hgx-h100-ndr400`},
		{"more NVLinks", configs.Source{Profile: "ndr400"}, []string{"--gpu=a100-sxm", "--set=nvlinks_per_gpu=18"},
			"--set nvlinks_per_gpu: 18: a100-sxm has 12"},
	} {
		if c.src.Getenv == nil {
			c.src.Getenv = environ()
		}
		f, err := Load(c.src, flagSet(t, c.args...))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !configs.IsUserError(err) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v\nwant %s", c.name, f, err, c.want)
		}
	}
}

// --set changes any key of a fabric file, also one without a variable.
func TestSetKeys(t *testing.T) {
	for _, c := range []struct {
		args []string
		same string // a file that says the same
	}{
		{[]string{"--set=link.mtu=9000"}, "link: {mtu: 9000}"},
		{[]string{"--set=topology.kind=fat-tree", "--set=topology.k=4", "--set=topology.trunk.latency=1us"},
			"topology: {kind: fat-tree, k: 4, trunk: {latency: 1us}}"},
		{[]string{"--set=topology={kind: fat-tree, k: 4, trunk: {latency: 1us}}"},
			"topology: {kind: fat-tree, k: 4, trunk: {latency: 1us}}"},
		{[]string{"--set=endpoint.overhead=3us", "--set=endpoint.gap=1us"}, "endpoint: {overhead: 3us, gap: 1us}"},
		{[]string{"--set=links=[{match: node1, loss: 1%}]"}, "links: [{match: node1, loss: 1%}]"},
		{[]string{"--set=transport.rto=1s", "--set=transport.kind=tcp"}, "transport: {kind: tcp, rto: 1s}"},
		{[]string{"--set=nccl.variables={NCCL_ALGO: Ring}"}, "nccl: {variables: {NCCL_ALGO: Ring}}"},
	} {
		file := writeFile(t, "base: eth10\n"+c.same+"\n")
		want, err := Load(configs.Source{File: file, Getenv: environ()}, flagSet(t))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Load(configs.Source{Profile: "eth10", Getenv: environ()}, flagSet(t, c.args...))
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		want.Name, want.Description = got.Name, got.Description
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%v (-file +set):\n%s", c.args, d)
		}
	}
}

// A key of a topology that is not its kind leaves the other keys of the file.
func TestSetKeepsTopology(t *testing.T) {
	file := writeFile(t, "base: eth10\nnodes: 8\ntopology: {kind: leaf-spine, leaves: 2, spines: 2, trunk: {latency: 1us}}\n")
	f, err := Load(configs.Source{File: file, Getenv: environ()}, flagSet(t, "--set=topology.spines=4"))
	if err != nil || f.Topology.Leaves != 2 || f.Topology.Spines != 4 {
		t.Errorf("%v, %+v", err, f)
	}
}

func TestSetRefuses(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"--set=link.jiter=2us", `--set: link: "jiter" is not a key here: did you mean jitter`},
		{"--set=linc.jitter=2us", `--set: "linc" is not a key here: did you mean link`},
		{"--set=link={jitter: 2us", "is not one list or mapping of YAML"},
		{"--set=base=eth1", "--set: base: only a file has a base"},
		{"--set=endpoint.gap=fast", `--set: endpoint.gap: `},
		{"--set=topology={kind: fat-tree, k: 3, trunk: {latency: 1us}}", `--set topology.k: 3: must be an even`},
		{"--set=nodes.many=2", `--set: nodes: a mapping was given`},
	} {
		fs := flagSet(t, c.arg)
		_, err := Load(configs.Source{Profile: "eth10", Getenv: environ()}, fs)
		var e *configs.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\n\twant %s", c.arg, err, c.want)
		}
	}
	for arg, want := range map[string]string{
		"--seed=3":        "it has no flag of its own: give --set seed=3",
		"--jitter=2us":    "it has no flag of its own: give --set link.jitter=2us",
		"--set=link.loss": "is not KEY=VALUE",
	} {
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddFabric(fs)
		if err := fs.Parse([]string{arg}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
}
