// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// node makes a fabric of one node with 8 GPUs of a kind, whose links take time.
func node(t *testing.T, kind, nvlink string) *fabric.Fabric {
	t.Helper()
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	if c.GPU, err = configs.BuiltInGPU(kind); err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.GPUsPerNode, c.NVLink, c.NodeTime, c.TimedNodes = 1, 8, nvlink, true, true
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// gpus are the wires between the GPUs of a node, for messages of packets of so many bytes.
func gpus(t *testing.T, f *fabric.Fabric, bytes int) *wires {
	path := func(d demand) []link.PathHop { return f.GPUPath(d.src, d.dst, fabric.Through) }
	return &wires{
		payload: bytes,
		flows: func(demands []demand) (flows []*link.Flow) {
			params, err := f.Params(1)
			if err != nil {
				t.Fatal(err)
			}
			tr := f.Transport()
			net := link.NewNetwork(params, &tr, nil, 1)
			t.Cleanup(net.Close)
			for i, d := range demands {
				flows = append(flows, net.NewDirectFlow(uint64(i+1), path(d), fabric.Hops(path(d))))
			}
			return flows
		},
		sim: func() *sim {
			s := &sim{}
			for _, h := range f.Hops {
				s.queues = append(s.queues, &queue{latency: float64(h.Spec.Latency),
					perPacket: float64(bytes) * 8e9 / float64(h.Spec.Bandwidth)})
			}
			return s
		},
		add: func(s *sim, d demand) *flow {
			fl := &flow{}
			for _, h := range path(d) {
				fl.path, fl.at = append(fl.path, s.queues[h.Hop]), append(fl.at, &recovering{})
			}
			fl.path[0].sources = append(fl.path[0].sources, fl)
			s.flows = append(s.flows, fl)
			return fl
		},
	}
}

// How far the times may be apart, as a share of those by packets. In rounds, messages of several flows are ready at the
// same instant; which of them is first decides when others are sent, and the simulator takes them in another order than
// the model.
const mostApart, mostApartInRounds = 0.02, 0.06

// Messages between the GPUs of a node take as long as by packets: over NVLinks through switches, over a mesh of them, and
// over PCI Express with switches and CPUs between the GPUs.
func TestGPULinks(t *testing.T) {
	for _, n := range []struct{ kind, nvlink string }{{"h100-sxm", ""}, {"a100-sxm", configs.MeshNVLink}, {"l40s", ""}} {
		f := node(t, n.kind, n.nvlink)
		for _, size := range []struct{ packets, bytes int }{{1, 2 << 10}, {1, 64 << 10}, {2, 64 << 10}, {9, 64 << 10}} {
			w := gpus(t, f, size.bytes)
			for name, all := range map[string]transfer{
				"ring":                  ring(8, 1, 14, size.packets),
				"ring of 4 channels":    ring(8, 4, 14, size.packets),
				"all to all":            allToAll(8, 1, size.packets, false),
				"all to all in rounds":  allToAll(8, 1, size.packets, true),
				"all to all, 4, rounds": allToAll(8, 4, size.packets, true),
			} {
				limit := mostApart
				if strings.Contains(name, "rounds") {
					limit = mostApartInRounds
				}
				title := fmt.Sprintf("%s %s, %s, %d x %d bytes", n.kind, n.nvlink, name, size.packets, size.bytes)
				t.Run(title, func(t *testing.T) {
					got, want := inModel(w, all), inPackets(w, all)
					t.Logf("%.2f us, by packets %.2f: %+.2f %%", got/1e3, want/1e3, 100*(got/want-1))
					if math.Abs(got/want-1) > limit {
						t.Errorf("%.2f us, by packets %.2f: %+.1f %% off", got/1e3, want/1e3, 100*(got/want-1))
					}
				})
			}
		}
	}
}
