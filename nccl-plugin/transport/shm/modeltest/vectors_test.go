// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"testing"

	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/link/vectors"
	"github.com/ddlemu/ddlemu/shaper/state"
	"github.com/ddlemu/ddlemu/shaper/state/statetest"
)

// inC is the model in C.
type inC struct{ flows []*Flow }

func newInC(t *testing.T, s *vectors.Scenario) *inC {
	t.Helper()
	spec := state.Spec{Name: "v", Nodes: s.NICs, GPUsPerNode: 1, NICsPerNode: 1, TimeScale: s.TimeScale, Seed: s.Seed, Transport: s.Transport, Table: link.NormalTable()}
	for n := range uint32(s.NICs) {
		spec.Hops = append(spec.Hops, state.HopSpec{Kind: state.TxPort, Src: n, Dst: n, Spec: s.Port}, state.HopSpec{Kind: state.RxPort, Src: n, Dst: n, Spec: s.Port})
	}
	for a := range s.NICs {
		for b := range s.NICs {
			if a == b {
				continue
			}
			spec.Hops = append(spec.Hops, state.HopSpec{Kind: state.Link, Src: uint32(a), Dst: uint32(b), Spec: s.Link})
			p := s.Path(a, b)
			spec.Paths = append(spec.Paths, state.PathSpec{Src: a, Dst: b, Hops: []state.PathStep{{Hop: p[0]}, {Hop: p[1], Private: true}, {Hop: p[2]}}})
		}
	}
	f := statetest.Of(t, spec)
	c := &inC{}
	for _, flow := range s.Flows {
		n := New(f, flow.ID, flow.Src, flow.Dst)
		t.Cleanup(n.Free)
		c.flows = append(c.flows, n)
	}
	return c
}

func (c *inC) Post(flow int, size uint64, t int64)  { c.flows[flow].Post(size, t) }
func (c *inC) Recv(flow int, t int64)               { c.flows[flow].Recv(t) }
func (c *inC) Advance(flow int, now int64) int64    { return c.flows[flow].Advance(now) }
func (c *inC) Message(f int, i uint64) link.Message { return c.flows[f].Message(i) }

func TestVectors(t *testing.T) {
	all, err := vectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if err := all[i].Check(newInC(t, &all[i])); err != nil {
			t.Error(err)
		}
	}
}
