// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs/units"
)

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

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFabricFlags(fs)
	AddLinkFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestLoadLayers(t *testing.T) {
	file := writeFile(t, "mine.yaml", "base: eth10\nnodes: 3\nlink: {latency: 1ms, loss: 1%}\n"+
		"links: [{match: 'node0:node1', latency: 9ms, bandwidth: 2Gbps}]\n")
	env := environ("DDLEMU_NODES", "4", "DDLEMU_LAT", "2ms", "DDLEMU_SEED", "7", "DDLEMU_NODE", "1")
	got, err := Load(Source{File: file, Getenv: env, Flags: flags(t, "--lat", "3ms", "--nics-per-node=2", "--ecn=64K")})
	if err != nil {
		t.Fatal(err)
	}
	want, err := Profile("eth10")
	if err != nil {
		t.Fatal(err)
	}
	bandwidth := 2 * units.Gbps
	want.Name, want.Description = "mine", ""
	want.Nodes, want.NICsPerNode, want.Seed = 4, 2, 7
	want.Link.Latency, want.Link.Loss.P, want.Link.ECN = 3*time.Millisecond, 0.01, 64*units.KiB
	// The flag is for all links, so the file's latency for some is gone.
	want.Links = []LinkOverride{{"node0:node1", LinkPatch{Bandwidth: &bandwidth}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// An override that a flag for all links leaves nothing of is no error.
func TestLoadFlagEmptiesOverride(t *testing.T) {
	file := writeFile(t, "mine.yaml", "base: eth10\nlinks: [{match: 'node0:node1', latency: 9ms}]\n")
	f, err := Load(Source{File: file, Getenv: environ(), Flags: flags(t, "--lat=1us")})
	if err != nil || len(f.Links) != 0 {
		t.Errorf("got %+v, %v; want no override left", f, err)
	}
}

func TestLoadEverySetting(t *testing.T) {
	args := map[string]string{
		"nodes": "4", "gpus-per-node": "2", "nics-per-node": "3", "nvlinks-per-gpu": "12", "transport": "tcp", "seed": "9", "time-scale": "16",
		"bw": "5Gbps", "lat": "7us", "jitter": "pareto:2us", "loss": "0.5%", "queue": "taildrop:2M",
		"ecn":      "none", // the datapath kernel has no other, nor another transport
		"datapath": "kernel", "shaper": "wire", "subnet": "10.99.0.0/16", "nccl-view": "host",
	}
	want, err := Profile("hdr200")
	if err != nil {
		t.Fatal(err)
	}
	want.Nodes, want.GPUsPerNode, want.NICsPerNode, want.Seed, want.TimeScale = 4, 2, 3, 9, 16
	want.NVLinksPerGPU = 12
	want.Datapath, want.Shaper, want.Subnet, want.NCCLView = Kernel, WireShaper, "10.99.0.0/16", HostView
	want.Transport = DefaultTransport(TCP)
	want.Link.Bandwidth, want.Link.Latency, want.Link.Jitter = 5*units.Gbps, 7*time.Microsecond, Jitter{ParetoJitter, 2000}
	want.Link.Loss, want.Link.Queue = Loss{P: 0.005}, Queue{2 * units.MiB, TailDrop}
	var byFlag, byEnv []string
	for _, s := range Settings() {
		byFlag = append(byFlag, "--"+s.Flag, args[s.Flag])
		byEnv = append(byEnv, s.Env, args[s.Flag])
	}
	for name, src := range map[string]Source{
		"flags":       {Profile: "hdr200", Getenv: environ(), Flags: flags(t, byFlag...)},
		"environment": {Profile: "hdr200", Getenv: environ(byEnv...)},
	} {
		got, err := Load(src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestLoadTransport(t *testing.T) {
	for _, c := range []struct {
		profile, flag string
		want          Transport
	}{
		{"wan-region", "tcp", Transport{Kind: TCP, RTO: 200 * time.Millisecond, SendBuffer: 16 * units.MiB, Window: 16 * units.MiB, Timeout: DefaultTransport(TCP).Timeout}},
		{"wan-region", "rdma", DefaultTransport(RDMA)},
		{"efa-p5", "tcp", DefaultTransport(TCP)},
	} {
		f, err := Load(Source{Profile: c.profile, Getenv: environ(), Flags: flags(t, "--transport", c.flag)})
		if err != nil || f.Transport != c.want {
			t.Errorf("%s as %s: %+v, %v; want %+v", c.profile, c.flag, f, err, c.want)
		}
	}
}

func TestLoadFindsFabric(t *testing.T) {
	file := writeFile(t, "mine.yml", "base: hdr200")
	for _, c := range []struct {
		name string
		src  Source
		want string
	}{
		{"profile", Source{Profile: "eth1", Getenv: environ()}, "eth1"},
		{"file", Source{File: file, Getenv: environ()}, "mine"},
		{"file as profile", Source{Profile: file, Getenv: environ()}, "mine"},
		{"default", Source{Default: "loopback", Getenv: environ()}, "loopback"},
		{"environment over default", Source{Default: "loopback", Getenv: environ(ProfileEnv, "ndr400")}, "ndr400"},
		{"file in environment", Source{Getenv: environ(FileEnv, file)}, "mine"},
		{"flag over environment", Source{Profile: "eth1", Getenv: environ(FileEnv, file)}, "eth1"},
	} {
		f, err := Load(c.src)
		if err != nil || f.Name != c.want {
			t.Errorf("%s: %+v, %v; want %s", c.name, f, err, c.want)
		}
	}
}

func TestLoadReadsProcessEnvironment(t *testing.T) {
	t.Setenv(ProfileEnv, "xdr800")
	f, err := Load(Source{})
	if err != nil || f.Name != "xdr800" {
		t.Errorf("got %+v, %v; want xdr800", f, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	small := writeFile(t, "small.yaml", "base: eth1\nlink: {queue: 64K}\n")
	big := writeFile(t, "big.yaml", strings.Repeat("#", maxFile+1))
	for _, c := range []struct {
		name string
		src  Source
		want string
	}{
		{"nothing", Source{}, "no fabric is named: give --profile with one of efa-p4d, "},
		{"both", Source{Profile: "eth1", File: small}, "both the profile eth1 and the file"},
		{"wrong name", Source{Profile: "ndr40"}, `"ndr40" is not a profile: did you mean ndr400`},
		{"part of a name", Source{Profile: "wan"}, `"wan" is not a profile: did you mean wan-continent, wan-metro or wan-region?`},
		{"far off", Source{Profile: "myrinet-2000-custom"}, `"myrinet-2000-custom" is not a profile: there are efa-p4d, efa-p5`},
		{"no file", Source{File: "/nonexistent/f.yaml"}, "fabric file /nonexistent/f.yaml does not exist: name a file, or"},
		{"folder", Source{File: "testdata"}, "fabric file testdata is a folder: name a file in it"},
		{"big file", Source{File: big}, "fabric file " + big + " is larger than 1048576 bytes"},
		{"bad variable", Source{Profile: "eth1", Getenv: environ("DDLEMU_BW", "100")}, `DDLEMU_BW: "100" has no unit`},
		{"variable out of range", Source{Profile: "eth1", Getenv: environ("DDLEMU_NODES", "0")}, "DDLEMU_NODES: nodes: 0 is out of range: must be 1 to 255"},
		{"bad transport", Source{Profile: "eth1", Getenv: environ("DDLEMU_TRANSPORT", "udp")}, `DDLEMU_TRANSPORT: "udp" is not one of tcp, rdma`},
		{"flag out of range", Source{Profile: "eth1", Flags: flags(t, "--lat=1m")}, "--lat: link.latency: 1m0s is out of range"},
		{"flag that clashes with the file", Source{File: small, Flags: flags(t, "--bw=100Gbps", "--queue=32K")}, "--queue: link.queue: lossless:32K is out of range: must be 64K"},
		{"override beyond the nodes", Source{File: "examples/rails.yaml", Flags: flags(t, "--nodes=3")}, "examples/rails.yaml:22: links[2].match: "},
	} {
		if c.src.Getenv == nil {
			c.src.Getenv = environ()
		}
		f, err := Load(c.src)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !IsUserError(err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v\nwant %s", c.name, f, err, c.want)
		}
	}
}

func TestFlagsRefuseAtOnce(t *testing.T) {
	for _, arg := range []string{"--bw=100", "--bw=0Gbps", "--lat=5", "--loss=2", "--jitter=x", "--queue=taildrop", "--nodes=x", "--transport=udp", "--time-scale=0"} {
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddFabricFlags(fs)
		AddLinkFlags(fs)
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
	AddFabricFlags(fs)
	if err := fs.Parse([]string{"--time-scale=4"}); err != nil || *scale != "4" {
		t.Fatalf("%v, %q", err, *scale)
	}
	f, err := Load(Source{Profile: "eth1", Getenv: environ("DDLEMU_TIME_SCALE", "8"), Flags: fs})
	if err != nil || f.TimeScale != 4 {
		t.Errorf("got %+v, %v; want the flag's time scale 4", f, err)
	}
}

func TestLinkFlags(t *testing.T) {
	p, err := LinkFlags(flags(t, "--bw=100Gbps", "--lat=5us", "--nodes=3"))
	bandwidth, latency := 100*units.Gbps, 5*time.Microsecond
	if d := cmp.Diff(LinkPatch{Bandwidth: &bandwidth, Latency: &latency}, p); err != nil || d != "" {
		t.Errorf("%v, (-want +got):\n%s", err, d)
	}
	if p, err := LinkFlags(flags(t)); err != nil || !p.Empty() {
		t.Errorf("no flags: %+v, %v; want no change", p, err)
	}
	for arg, want := range map[string]string{
		"--bw=11Tbps":   "--bw: 11Tbps is out of range",
		"--lat=11s":     "--lat: 11s is out of range",
		"--jitter=11s":  "--jitter: normal:11s is out of range",
		"--queue=8G":    "--queue: lossless:8G is out of range",
		"--jitter=20us": "",
	} {
		_, err := LinkFlags(flags(t, arg))
		var e *Error
		if want == "" && err != nil || want != "" && (!errors.As(err, &e) || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", arg, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string][]string{
		"ndr400": {"ndr400"}, "nrd400": {"ndr400"}, "eth": {"eth1", "eth10", "eth25-tcp"}, "NDR": {"ndr400"}, "zzzzzzzzzzzz": nil,
	} {
		got := Nearest(word, ProfileNames())
		if len(want) == 0 && len(got) > 0 || len(want) > 0 && !slices.Equal(got[:min(len(got), len(want))], want) {
			t.Errorf("Nearest(%q) = %v, want %v first", word, got, want)
		}
	}
}
