// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
)

func TestUncontrolled(t *testing.T) {
	late := time.Microsecond
	leaves := configs.Topology{Kind: topology.LeafSpine, Leaves: 2, Trunk: configs.LinkPatch{Latency: &late}}
	const rdma = "rdma has no congestion control in the model: "
	for _, c := range []struct {
		name   string
		change func(*configs.Fabric)
		incast bool
		want   string
	}{
		{"an ideal switch", func(*configs.Fabric) {}, false, ""},
		{"an all-to-all", func(*configs.Fabric) {}, true, rdma + "shared ports do not slow flows down (docs/model.md)"},
		{"loss", func(f *configs.Fabric) { f.Link.Loss.P = 0.001 }, false,
			rdma + "lost packets do not slow flows down (docs/model.md)"},
		{"loss of one link", func(f *configs.Fabric) {
			f.Links = []configs.LinkOverride{
				{Match: "node0>node1", LinkPatch: configs.LinkPatch{Loss: &configs.Loss{P: 0.1}}}}
		}, false, rdma + "lost packets do not slow flows down (docs/model.md)"},
		{"everything", func(f *configs.Fabric) {
			f.Topology, f.Link.Loss.P, f.Link.Queue = leaves, 0.001,
				configs.Queue{Policy: configs.TailDrop, Bytes: 1 << 20}
			f.Link.ECN = 100_000
		}, true, rdma +
			"lost packets, packets that full queues drop, ECN marks, shared links between switches, shared ports do not slow flows down (docs/model.md)"},
		{"several switches", func(f *configs.Fabric) { f.Topology = leaves }, false,
			rdma + "shared links between switches do not slow flows down (docs/model.md)"},
		{"tcp without congestion control", func(f *configs.Fabric) {
			f.Transport, f.Link.Loss.P = configs.DefaultTransport(configs.TCP), 0.001
		}, false,
			"tcp has no congestion control here: lost packets do not slow flows down; --set transport.congestion=cubic adds it"},
		{"tcp with it", func(f *configs.Fabric) {
			f.Transport, f.Link.Loss.P, f.Topology = configs.DefaultTransport(configs.TCP), 0.001, leaves
			f.Transport.Congestion = configs.Reno
		}, true, ""},
		{"the kernel's tcp", func(f *configs.Fabric) {
			f.Transport, f.Link.Loss.P, f.Datapath = configs.DefaultTransport(configs.TCP), 0.001, configs.Kernel
		}, true, ""},
	} {
		config := configs.Default()
		config.Nodes = 4
		c.change(&config)
		f, err := New(&config)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := f.Uncontrolled(f.All(), c.incast); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
