// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/link"
)

var update = flag.Bool("update", false, "write vectors.json anew, by the model in Go")

// inGo is the model in Go.
type inGo struct{ flows []*link.Flow }

func newInGo(t *testing.T, s *Scenario) *inGo {
	t.Helper()
	hops := make([]*link.Hop, 2*s.NICs+s.NICs*(s.NICs-1))
	for i := range hops {
		spec := s.Port
		if i >= 2*s.NICs {
			spec = s.Link
		}
		p, err := link.NewParams(spec, s.TimeScale)
		if err != nil {
			t.Fatal(err)
		}
		hops[i] = &link.Hop{ID: uint32(i), Params: &p}
	}
	k := int64(s.TimeScale)
	tr := s.Transport
	tr.RTO, tr.DownTimeout, tr.Overhead, tr.Gap = tr.RTO*k, tr.DownTimeout*k, tr.Overhead*k, tr.Gap*k
	tr.Host = tr.Host.Scaled(k)
	tr.Second *= k
	tables := &[3]*link.JitterTable{link.NormalTable(), link.ParetoTable(), link.NormalTable()}
	g := &inGo{}
	for _, f := range s.Flows {
		p, q := s.Path(f.Src, f.Dst), s.Path(f.Dst, f.Src)
		g.flows = append(g.flows, link.NewFlow(f.ID, s.Seed,
			[]link.PathHop{{Hop: hops[p[0]]}, {Hop: hops[p[1]], Private: true}, {Hop: hops[p[2]]}},
			[]*link.Hop{hops[q[0]], hops[q[1]], hops[q[2]]}, &tr, tables))
	}
	return g
}

func (g *inGo) Post(flow int, size uint64, t int64)  { g.flows[flow].Post(size, t) }
func (g *inGo) Recv(flow int, t int64)               { g.flows[flow].Recv(t) }
func (g *inGo) Advance(flow int, now int64) int64    { return g.flows[flow].Advance(now) }
func (g *inGo) Message(f int, i uint64) link.Message { return *g.flows[f].Message(i) }

func TestModelInGo(t *testing.T) {
	if *update {
		write(t)
		t.Skip("wrote vectors.json")
	}
	all, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("%d scenarios", len(all))
	}
	for i := range all {
		if err := all[i].Check(newInGo(t, &all[i])); err != nil {
			t.Error(err)
		}
	}
}

// write makes the scenarios: one per feature of the model, with posts, irecvs and
// polls at random times of a fixed seed.
func write(t *testing.T) {
	plain := link.Spec{Bandwidth: 10e9, Latency: 25 * time.Microsecond, MTU: 1500, Header: 40, Framing: 38}
	tcp := link.Transport{Kind: link.TCP, SendBuffer: 256 << 10, Window: 384 << 10, RTO: 200e6, DownTimeout: 1e9}
	rdma := link.Transport{Kind: link.RDMA, RTO: 67e6, DownTimeout: 500e6}
	kinds := []struct {
		name   string
		change func(s *Scenario)
	}{
		{"plain", func(*Scenario) {}},
		{"time scale 64", func(s *Scenario) { s.TimeScale = 64 }},
		{"unshaped", func(s *Scenario) { s.Port.Bandwidth, s.Link.Bandwidth, s.Link.Latency = 0, 0, 0 }},
		{"slow link", func(s *Scenario) { s.Link.Bandwidth = 3e9 }},
		{"odd rate", func(s *Scenario) { s.Port.Bandwidth, s.Link.Bandwidth = 123_456_789, 123_456_789 }},
		{"uniform jitter", func(s *Scenario) { s.Link.Jitter = link.Jitter{Kind: link.Uniform, Value: 20_000} }},
		{"normal jitter", func(s *Scenario) { s.Link.Jitter = link.Jitter{Kind: link.Normal, Value: 9_999} }},
		{"pareto jitter", func(s *Scenario) { s.Link.Jitter = link.Jitter{Kind: link.Pareto, Value: 7_001} }},
		{"loss", func(s *Scenario) { s.Link.Loss.P = 0.01 }},
		{"burst loss", func(s *Scenario) { s.Link.Loss = link.Loss{P: 0.001, BadP: 0.4, GoodToBad: 0.01, BadToGood: 0.2} }},
		{"selective repeat", func(s *Scenario) { s.Link.Loss.P, s.Transport.SelectiveRepeat = 0.01, true }},
		{"overhead and gap", func(s *Scenario) { s.Transport.Overhead, s.Transport.Gap = 700, 1500 }},
		{"lossless queue", func(s *Scenario) { s.Port.QueueBytes, s.Link.QueueBytes = 64<<10, 64<<10 }},
		{"tail drop", func(s *Scenario) { s.Port.QueueBytes, s.Port.QueuePolicy = 32<<10, link.TailDrop }},
		{"down", func(s *Scenario) { s.Link.Down = true }},
		{"host", func(s *Scenario) {
			s.Transport.Host = link.Host{PerMessage: 7_500, NsNum: 10, NsDen: 33}
			s.TimeScale = 3
		}},
		{"fair queue", func(s *Scenario) {
			s.Port.QueueBytes, s.Port.QueuePolicy, s.Link.QueueBytes, s.Link.QueuePolicy = 64<<10, link.Fair, 64<<10, link.Fair
			s.Link.Bandwidth, s.Link.Latency = 3e9, time.Microsecond
		}},
		{"reno", func(s *Scenario) {
			s.Transport.Congestion, s.Transport.Second = link.Reno, 1e9
			s.Port.QueueBytes, s.Port.QueuePolicy, s.Link.Loss.P = 32<<10, link.TailDrop, 0.005
		}},
		{"cubic", func(s *Scenario) {
			s.Transport.Congestion, s.Transport.Second, s.TimeScale = link.Cubic, 1e9, 3
			s.Port.ECN, s.Link.Loss.P = 16<<10, 0.005
		}},
	}
	var all []Scenario
	for i, k := range kinds {
		for _, tr := range []link.Transport{tcp, rdma} {
			s := Scenario{Name: k.name + map[link.TransportKind]string{link.TCP: ", tcp", link.RDMA: ", rdma"}[tr.Kind], NICs: 3, Port: plain, Link: plain, Transport: tr, TimeScale: 1, Seed: uint64(1000 + i)}
			s.Port.Latency = 0
			k.change(&s)
			s.Flows = []Flow{{ID: 11, Src: 0, Dst: 1}, {ID: 12, Src: 0, Dst: 2}, {ID: 13, Src: 2, Dst: 1}}
			s.Steps = steps(rand.New(rand.NewPCG(uint64(i), uint64(tr.Kind))), len(s.Flows), int64(s.TimeScale))
			s.Record(newInGo(t, &s))
			all = append(all, s)
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	// A scenario a line, so that a change shows where it is.
	if err := os.WriteFile("vectors.json", append([]byte("[\n"), append(lines(out), "\n]\n"...)...), 0o644); err != nil {
		t.Fatal(err)
	}
}

func lines(array []byte) []byte {
	var raw []json.RawMessage
	if err := json.Unmarshal(array, &raw); err != nil {
		panic(err)
	}
	var out []byte
	for i, r := range raw {
		if i > 0 {
			out = append(out, ",\n"...)
		}
		out = append(out, r...)
	}
	return out
}

func steps(r *rand.Rand, flows int, k int64) []Step {
	var out []Step
	for f := range flows {
		for _, do := range []string{"post", "recv"} {
			t := int64(0)
			for range 6 {
				t += r.Int64N(80_000 * k)
				s := Step{Flow: f, Do: do, Time: t}
				if do == "post" {
					s.Size = []uint64{0, 8, 1460, 65536, 100_000, 300_000}[r.IntN(6)]
				}
				out = append(out, s)
			}
		}
		for range 40 {
			out = append(out, Step{Flow: f, Do: "poll", Time: r.Int64N(1_500_000 * k)})
		}
		out = append(out, Step{Flow: f, Do: "poll", Time: 400_000_000 * k})
	}
	slices.SortStableFunc(out, func(a, b Step) int { return int(min(max(a.Time-b.Time, -1), 1)) })
	return out
}
