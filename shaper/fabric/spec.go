// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/link"
)

var jitterKinds = []struct {
	config string
	model  link.JitterKind
}{
	{configs.NoJitter, link.NoJitter},
	{configs.UniformJitter, link.Uniform},
	{configs.NormalJitter, link.Normal},
	{configs.ParetoJitter, link.Pareto},
	{configs.TableJitter, link.Table},
}

var queuePolicies = []struct {
	config string
	model  link.Policy
}{
	{configs.Lossless, link.Lossless},
	{configs.TailDrop, link.TailDrop},
	{configs.Fair, link.Fair},
}

var congestions = map[string]link.Congestion{"": link.NoCongestion, configs.Reno: link.Reno, configs.Cubic: link.Cubic}

// Spec is a link as the link model takes it. l must be valid.
func Spec(l configs.Link) link.Spec {
	s := link.Spec{
		Bandwidth:  uint64(l.Bandwidth),
		Latency:    l.Latency,
		Jitter:     link.Jitter{Value: l.Jitter.Value},
		Loss:       link.Loss(l.Loss),
		QueueBytes: uint64(l.Queue.Bytes),
		ECN:        uint64(l.ECN),
		MTU:        uint32(l.MTU),
		Header:     uint32(l.Header),
		Framing:    uint32(l.Framing),
		Down:       !l.Up,
	}
	for _, k := range jitterKinds {
		if k.config == l.Jitter.Kind {
			s.Jitter.Kind = k.model
		}
	}
	for _, p := range queuePolicies {
		if p.config == l.Queue.Policy {
			s.QueuePolicy = p.model
		}
	}
	return s
}

// LinkOf is Spec's inverse: what a user would have written for s.
func LinkOf(s link.Spec) configs.Link {
	l := configs.Link{
		Bandwidth: units.Bandwidth(s.Bandwidth),
		Latency:   s.Latency,
		Jitter:    configs.Jitter{Value: s.Jitter.Value},
		Loss:      configs.Loss(s.Loss),
		Queue:     configs.Queue{Bytes: units.Size(s.QueueBytes)},
		ECN:       units.Size(s.ECN),
		MTU:       int(s.MTU),
		Header:    int(s.Header),
		Framing:   int(s.Framing),
		Up:        !s.Down,
	}
	for _, k := range jitterKinds {
		if k.model == s.Jitter.Kind {
			l.Jitter.Kind = k.config
		}
	}
	for _, p := range queuePolicies {
		if p.model == s.QueuePolicy {
			l.Queue.Policy = p.config
		}
	}
	return l
}

// portSpec is the port of a NIC whose links are as l.
func portSpec(kind Kind, l configs.Link) link.Spec {
	port := configs.Link{
		Bandwidth: l.Bandwidth, MTU: l.MTU, Header: l.Header, Framing: l.Framing,
		Jitter: configs.Jitter{Kind: configs.NoJitter},
		Queue:  configs.Queue{Policy: configs.Lossless},
		Up:     true,
	}
	if kind == RxPort {
		port.Queue, port.ECN = l.Queue, l.ECN
	}
	return Spec(port)
}

// patched is the spec of h after a change. A port takes of it what a port has.
func patched(h Hop, p configs.LinkPatch) (link.Spec, error) {
	l := LinkOf(h.Spec)
	p.Apply(&l)
	if h.Kind == TxPort || h.Kind == RxPort {
		return portSpec(h.Kind, l), l.Validate()
	}
	return Spec(l), l.Validate()
}

// host is what messages cost the fabric's hosts, as the link model takes it.
func (f *Fabric) host() link.Host {
	h := f.Config.Host
	host, err := link.NewHost(h.PerMessage, uint64(h.Copy))
	if err != nil {
		panic("fabric: a valid configuration has a host that cannot be: " + err.Error())
	}
	return host
}

// Transport is the fabric's transport as the link model takes it, its times not
// scaled.
func (f *Fabric) Transport() link.Transport {
	c := f.Config.Transport
	t := link.Transport{
		Kind:        link.TCP,
		SendBuffer:  uint64(c.SendBuffer),
		Window:      uint64(c.Window),
		Congestion:  congestions[c.Congestion],
		Second:      int64(time.Second),
		RTO:         int64(c.RTO),
		DownTimeout: int64(c.Timeout),
		Overhead:    int64(f.Config.Endpoint.Overhead),
		Gap:         int64(f.Config.Endpoint.Gap),
		Host:        f.host(),
	}
	if c.Kind == configs.RDMA {
		t.Kind = link.RDMA
		t.SelectiveRepeat = c.Recovery == configs.SelectiveRepeat
		t.DownTimeout = int64(c.RTO) * int64(c.RetryCount)
	}
	return t
}

// JitterTable is the fabric's own distribution as the link model takes it, nil
// if it has none. Between the quantiles given it is linear.
func (f *Fabric) JitterTable() *link.JitterTable {
	given := f.Config.JitterTable
	if given == nil {
		return nil
	}
	var t link.JitterTable
	for i := range t {
		// Entry i is the quantile at (i + 1/2) / size; given[k] is that at k / (n-1).
		at := (float64(i) + 0.5) / link.JitterTableSize * float64(len(given)-1)
		k := min(int(at), len(given)-2)
		q := given[k] + (given[k+1]-given[k])*(at-float64(k))
		t[i] = int32(math.Round(q * (1 << 16)))
	}
	return &t
}

// TimeScale is the fabric's time scale, 1 if the configuration leaves it open.
func (f *Fabric) TimeScale() int { return max(f.Config.TimeScale, 1) }
