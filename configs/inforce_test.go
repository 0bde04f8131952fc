// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// The header has everything that is in force, and what a flag or a variable has changed comes first, with what the
// profile has in brackets.
func TestInForce(t *testing.T) {
	const (
		ports = "queue lossless:1M, transport rdma, congestion control none"
		rest  = "; bandwidth 400Gbps, latency 1.2µs, jitter normal:60ns, "
	)
	for _, tc := range []struct {
		set           map[string]string // by flag
		changes, text string
	}{
		{nil, "", "ndr400: bandwidth 400Gbps, latency 1.2µs, jitter normal:60ns, loss none, " + ports},
		{map[string]string{"bw": "400G", "nodes": "3"}, "", // what the profile has, and no link
			"ndr400: bandwidth 400Gbps, latency 1.2µs, jitter normal:60ns, loss none, " + ports},
		{map[string]string{"loss": "0.1"}, "ndr400 with loss 10% (none)",
			"ndr400 with loss 10% (none)" + rest + ports},
		{map[string]string{"bw": "1G", "loss": "0.1"}, "ndr400 with bandwidth 1Gbps (400Gbps), loss 10% (none)",
			"ndr400 with bandwidth 1Gbps (400Gbps), loss 10% (none); latency 1.2µs, jitter normal:60ns, " + ports},
		{map[string]string{"lat": "5us", "jitter": "none", "queue": "taildrop:1M"},
			"ndr400 with latency 5µs (1.2µs), jitter none (normal:60ns), queue taildrop:1M (lossless:1M)",
			"ndr400 with latency 5µs (1.2µs), jitter none (normal:60ns), queue taildrop:1M (lossless:1M); " +
				"bandwidth 400Gbps, loss none, transport rdma, congestion control none"},
		{map[string]string{"transport": "tcp", "congestion": "reno"},
			"ndr400 with transport tcp (rdma), congestion control reno (none)",
			"ndr400 with transport tcp (rdma), congestion control reno (none)" + rest + "loss none, queue lossless:1M"},
		{map[string]string{"gpu": "h100-sxm", "node-time": "on", "ecn": "200K", "nics-per-node": "2"},
			"ndr400 with ecn 200K (none), NICs per node 2 (1), GPU h100-sxm (none), node time on (off)",
			"ndr400 with ecn 200K (none), NICs per node 2 (1), GPU h100-sxm (none), node time on (off)" + rest +
				"loss none, " + ports},
	} {
		var base Fabric
		src := Source{Profile: "ndr400", Unset: &base, Getenv: func(string) string { return "" },
			Setting: func(s *Setting) (text, where string) {
				if text = tc.set[s.Flag]; text != "" {
					where = "--" + s.Flag
				}
				return text, where
			}}
		f, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		if in := f.InForce(&base); in.Changes() != tc.changes || in.Text != tc.text {
			t.Errorf("%v: changes %q, want %q\ntext %q\nwant %q", tc.set, in.Changes(), tc.changes, in.Text, tc.text)
		}
	}
}

// The fields of JSON are those of the fabric, not of its profile, and the text has what is not the usual.
func TestInForceFields(t *testing.T) {
	base, err := Profile("hgx-h100-ndr400")
	if err != nil {
		t.Fatal(err)
	}
	f := *base
	f.Link.Loss, f.Links = Loss{P: 0.1}, []LinkOverride{{Match: "node0"}}
	in := f.InForce(base).WithShaped(2).Settle(&f, "that of h100-sxm")
	if in.Link.Loss != 0.1 || in.NICs != 8 || in.GPU != "h100-sxm" || in.GPUTime != "that of h100-sxm" ||
		in.Topology != "star" || in.Transport != RDMA || in.Congestion != NoCongestion {
		t.Errorf("%+v", in)
	}
	if len(in.Overridden) != 1 || in.Overridden[0] != (Override{"loss", "10%", "none"}) {
		t.Errorf("overridden: %v", in.Overridden)
	}
	for _, want := range []string{"with loss 10% (none); ", ", NICs per node 8, GPU h100-sxm; ",
		"; some links otherwise (1 override); 2 links changed by ddlemu shape"} {
		if !strings.Contains(in.Text, want) {
			t.Errorf("%q lacks %q", in.Text, want)
		}
	}
	want := base.Name + " with loss 1% to 2% (none); bandwidth"
	if over := in.Over("loss", "1% to 2%"); !strings.HasPrefix(over.Text, want) ||
		!strings.Contains(in.WithShaped(1).Text, "10%") { // a sweep leaves the fabric as it is
		t.Errorf("%q, want %q", over.Text, want)
	}
	pairs := in.Properties()
	for i, want := range []string{"in_force", in.Changes(), "fabric_in_force", in.Text, "bandwidth", "400Gbps"} {
		if pairs[i] != want {
			t.Errorf("property %d: %q, want %q", i, pairs[i], want)
		}
	}
	if (&InForce{}).Properties() != nil {
		t.Error("nothing in force has properties")
	}
}

// What a file lacks and a flag gives is no error: the file is not checked without the flag.
func TestUnset(t *testing.T) {
	var base Fabric
	f, err := Load(Source{File: "f.yaml", Text: []byte("base: ndr400\nnode_time: on\n"), Unset: &base,
		Getenv: func(string) string { return "" },
		Setting: func(s *Setting) (text, where string) {
			switch s.Flag {
			case "gpu":
				return "h100-sxm", "--gpu"
			case "loss":
				return "1%", "--loss"
			}
			return "", ""
		}})
	if err != nil {
		t.Fatal(err)
	}
	in := f.InForce(&base)
	if want := base.Name + " with loss 1% (none), GPU h100-sxm (none)"; base.GPU != nil || in.Changes() != want {
		t.Errorf("%q, want %q", in.Changes(), want)
	}
}

// The text has the trunks of the nodes that the command settles, and how GPUs share NICs.
func TestInForceOfNodes(t *testing.T) {
	base, err := Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	base.Topology = Topology{Kind: "leaf-spine", Leaves: 2, Oversubscription: 4,
		Trunk: LinkPatch{Latency: new(600 * time.Nanosecond)}}
	f := *base
	f.Nodes, f.GPUsPerNode = 4, 8
	in := f.InForce(base)
	const want = "congestion control none, topology leaf-spine, trunks 200Gbps 600ns, 4:1, 1 NIC for 8 GPUs"
	if !strings.HasSuffix(in.Text, want) || in.Changes() != "" {
		t.Errorf("%q, want %q; changes %q", in.Text, want, in.Changes())
	}
	if tr := in.Trunks; in.GPUs != 8 || tr == nil || *tr != (Trunks{4, 200e9, 200e9, 600, 600, 4}) {
		t.Errorf("%d GPUs, trunks %+v", in.GPUs, tr)
	}
	pairs := strings.Join(in.Properties(), " ")
	for _, want := range []string{" trunks 200Gbps 600ns, 4:1 ", " nics_for_gpus 1 for 8 "} {
		if !strings.Contains(pairs, want) {
			t.Errorf("%q lacks %q", pairs, want)
		}
	}
	one := *base
	one.Nodes, one.GPUsPerNode, one.Topology = 1, 8, Topology{}
	if in := in.Settle(&one, ""); strings.Contains(in.Text, "NIC for") || in.Trunks != nil {
		t.Errorf("one node, whose NICs carry nothing: %q", in.Text)
	}
	f.Nodes, f.GPUsPerNode = 8, 1
	if in = in.Settle(&f, ""); !strings.HasSuffix(in.Text, "trunks 400Gbps 600ns, 4:1") {
		t.Errorf("with 4 nodes on a leaf: %q", in.Text)
	}
	f.Links = []LinkOverride{{Match: "leaf1>spine0", LinkPatch: LinkPatch{Bandwidth: new(100 * units.Gbps)}}}
	if in = in.Settle(&f, ""); !strings.Contains(in.Text, "trunks 100Gbps to 400Gbps 600ns") {
		t.Errorf("with an override: %q", in.Text)
	}
}
