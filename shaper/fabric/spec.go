// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"math"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

var congestions = map[string]link.Congestion{
	"": link.NoCongestion, configs.NoCongestion: link.NoCongestion, configs.Reno: link.Reno, configs.Cubic: link.Cubic,
}

// patched is the spec of h after a change. Parameters that a port lacks do not change a
// port.
func (f *Fabric) patched(h Hop, p configs.LinkPatch) (link.Spec, error) {
	l := LinkOf(h.Spec)
	p.Apply(&l)
	err := cmp.Or(l.Validate(), f.Config.ValidateLink(&l))
	if h.Kind == link.TxPort || h.Kind == link.RxPort {
		l = l.Port(h.Kind == link.RxPort)
	}
	s := Spec(l)
	if h.Kind == link.TxPort {
		s.Latency = f.portLatency()
	}
	return s, err
}

// host is what messages cost the fabric's hosts, for the link model, with what proxies take if nodes cost time.
func (f *Fabric) host() link.Host {
	h := f.Config.Host
	perMessage := h.PerMessage
	if f.Config.TimedNodes {
		perMessage = f.timedPerMessage()
	}
	host, err := link.NewHost(perMessage, uint64(h.Copy))
	if err != nil {
		panic("fabric: a valid configuration has an invalid host: " + err.Error())
	}
	return host
}

// Transport is the fabric's transport for the link model. Its times are not scaled.
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
		t.Rails, t.MinStripe = uint32(c.Rails), uint64(c.MinStripe)
		t.DownTimeout = int64(c.RTO) * int64(c.RetryCount)
	}
	return t
}

// JitterTable is the fabric's own distribution for the link model, nil
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

// TimeScale is the fabric's time scale, 1 if the configuration does not give it.
func (f *Fabric) TimeScale() int { return max(f.Config.TimeScale, 1) }
