// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// addTraffic sums the messages of a call by connection and by hop.
func (e *Estimate) addTraffic(p *plan.Plan, f *Fabric) error {
	conns := make([]Traffic, len(p.Conns))
	paths := make([][]link.PathHop, len(p.Conns))
	for i, c := range p.Conns {
		conns[i].Conn = Conn{Src: c.Src, Dst: c.Dst, Channel: c.Channel, P2P: c.P2P}
		if f.Node(c.Src) == f.Node(c.Dst) {
			if f.Nodes != nil && c.Src != c.Dst {
				paths[i] = f.Nodes.Path(c.Src, c.Dst, c.Multicast)
			}
			continue
		}
		var err error
		if paths[i], _, err = f.Path(conns[i].Conn); err != nil {
			return err
		}
	}
	loads := map[int]*Load{}
	var order []int
	for _, b := range p.Blocks {
		b.Each(func(loop *plan.Loop, a *plan.Action) {
			n := uint64(loop.Repeat)
			if a.KeepSend {
				return
			}
			for _, i := range a.Send {
				conns[i].Messages += n
				conns[i].Bytes += n * a.Bytes
				bytes := a.Bytes // on each hop
				between := f.IsBetween(conns[i].Src, conns[i].Dst)
				if !between {
					bytes = f.Nodes.Cost(loop, p.Conns[i].P2P, false, p.Proto).OnLink(bytes)
				}
				for k, h := range paths[i] {
					l, params := loads[h.Hop], &f.Params[h.Hop]
					if l == nil {
						l = &Load{Hop: h.Hop}
						loads[h.Hop] = l
						order = append(order, h.Hop)
					}
					l.Add(params, bytes, n)
					if (k == 0 || k == len(paths[i])-1) && between {
						l.HostNs += float64(n) * float64(f.Transport.Host.Time(bytes))
					}
					if k == 0 {
						e.pieces += n * (1 + bytes/uint64(params.Segment))
					}
				}
			}
		})
	}
	for i := range conns {
		if paths[i] != nil && conns[i].Messages > 0 {
			e.Traffic = append(e.Traffic, conns[i])
		}
	}
	for _, h := range order {
		e.Loads = append(e.Loads, *loads[h])
	}
	return nil
}
