// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs/units"
)

// The figures of the profiles are the published ones; GB/s of payload per NIC.
func TestProfiles(t *testing.T) {
	type facts struct {
		line      units.Bandwidth
		payload   float64
		latency   time.Duration
		transport string
		nics      int
	}
	want := map[string]facts{
		"loopback":        {0, 0, 0, RDMA, 1},
		"eth1":            {units.Gbps, 0.949 / 8, 25 * time.Microsecond, TCP, 1},
		"eth10":           {10 * units.Gbps, 9.49 / 8, 25 * time.Microsecond, TCP, 1},
		"eth25-tcp":       {25 * units.Gbps, 2.9, 25 * time.Microsecond, TCP, 1},
		"roce100":         {100 * units.Gbps, 12.2, 2 * time.Microsecond, RDMA, 1},
		"hdr200":          {200 * units.Gbps, 24.4, 1200 * time.Nanosecond, RDMA, 1},
		"ss11-200":        {200 * units.Gbps, 24.0, 3700 * time.Nanosecond, RDMA, 1},
		"roce400":         {400 * units.Gbps, 49.0, 2 * time.Microsecond, RDMA, 1},
		"efa-p6":          {400 * units.Gbps, 48, 10 * time.Microsecond, RDMA, 8},
		"tcpxo":           {200 * units.Gbps, 23.6, 20 * time.Microsecond, RDMA, 8},
		"ndr400":          {400 * units.Gbps, 47, 1200 * time.Nanosecond, RDMA, 1},
		"xdr800":          {800 * units.Gbps, 94, 1200 * time.Nanosecond, RDMA, 1},
		"dgx-a100-nvlink": {1879200 * units.Mbps, 234.9, time.Microsecond, RDMA, 1},
		"ndv4":            {1879200 * units.Mbps, 234.9, time.Microsecond, RDMA, 2},
		"efa-p4d":         {100 * units.Gbps, 11.7, 15 * time.Microsecond, RDMA, 4},
		"efa-p5":          {400 * units.Gbps, 48, 12 * time.Microsecond, RDMA, 8},
		"t4-efa":          {25700 * units.Mbps, 25.7 / 8, 12 * time.Microsecond, RDMA, 1},
		"wan-metro":       {10 * units.Gbps, 9.5 / 8, 500 * time.Microsecond, TCP, 1},
		"wan-region":      {10 * units.Gbps, 9.5 / 8, 5 * time.Millisecond, TCP, 1},
		"wan-continent":   {10 * units.Gbps, 9.5 / 8, 28 * time.Millisecond, TCP, 1},
	}
	all, err := Profiles()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(want) {
		t.Errorf("%d profiles, want %d", len(all), len(want))
	}
	for _, f := range all {
		w, ok := want[f.Name]
		if !ok {
			t.Errorf("profile %s: not in the list of this test", f.Name)
			continue
		}
		got := facts{f.Link.Bandwidth, f.Link.PayloadRate() / 1e9, f.Link.Latency, f.Transport.Kind, f.NICsPerNode}
		if math.Abs(got.payload-w.payload) > 0.002*w.payload {
			t.Errorf("profile %s: payload %.4f GB/s, want %.4f within 0.2 %%", f.Name, got.payload, w.payload)
		}
		got.payload = w.payload
		if got != w {
			t.Errorf("profile %s: got %+v, want %+v", f.Name, got, w)
		}
		if f.Description == "" || len(f.Sources) == 0 {
			t.Errorf("profile %s: no description or no sources", f.Name)
		}
	}
}

func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(files) != 6 {
		t.Fatalf("examples: %v, %v; want 6", files, err)
	}
	for _, file := range files {
		f, err := Load(Source{File: file, Getenv: func(string) string { return "" }})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		again := roundTrip(t, f)
		if d := cmp.Diff(f, again); d != "" {
			t.Errorf("%s printed and read again differs:\n%s", file, d)
		}
	}
}

func TestExampleValues(t *testing.T) {
	f, err := Load(Source{File: "examples/rails.yaml", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	latency, bandwidth := 2*time.Microsecond, 100*units.Gbps
	want, err := Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	want.Name, want.Description = "rails", "4 nodes x 2 GPUs x 2 rails of NDR, with a slow cable."
	want.Nodes, want.GPUsPerNode, want.NICsPerNode = 4, 2, 2
	want.Links = []LinkOverride{
		{"*.nic0:*.nic1", LinkPatch{Latency: &latency}},
		{"node2.nic1", LinkPatch{Bandwidth: &bandwidth}},
		{"node0.nic0>node3.nic0", LinkPatch{Loss: &Loss{GoodToBad: 1e-5, BadToGood: 0.2, BadP: 1}}},
	}
	want.Transport.Recovery = SelectiveRepeat
	if d := cmp.Diff(want, f); d != "" {
		t.Errorf("rails.yaml (-want +got):\n%s", d)
	}
}

func roundTrip(t interface{ Fatal(...any) }, f *Fabric) *Fabric {
	text, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode("again.yaml", text)
	if err != nil {
		t.Fatal(err, "\n", string(text))
	}
	return again
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
