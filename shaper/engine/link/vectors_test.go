// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/vectors.json anew")

const vectorsFile = "testdata/vectors.json"

// scenario is flows on a star of NICs: NIC n's ports are hops 2n (out) and 2n+1
// (in), then the links from each NIC to each other one in order of their numbers.
// A path is [port out, link, port in], of which the link is private.
type scenario struct {
	Name      string     `json:"name"`
	NICs      int        `json:"nics"`
	Port      Spec       `json:"port"`
	Link      Spec       `json:"link"`
	Transport Transport  `json:"transport"` // not scaled
	TimeScale int        `json:"time_scale"`
	Seed      uint64     `json:"seed"`
	Flows     []ends     `json:"flows"`
	Steps     []step     `json:"steps"`
	Messages  [][]result `json:"messages"` // by flow
}

// ends are a flow with its id.
type ends struct {
	ID       uint64 `json:"id"`
	Src, Dst int
}

// step is something that happens to a flow at a time (ns): a post, an irecv, or a
// poll, by which the flow's Advance returns Next.
type step struct {
	Flow int    `json:"flow"`
	Do   string `json:"do"` // post, recv or poll
	Time int64  `json:"time"`
	Size uint64 `json:"size,omitempty"`
	Next int64  `json:"next,omitempty"`
}

// result is what must be known of a message at the end.
type result struct {
	Due, Sent, Distortion int64
}

// linkHop is the number of the hop of the link from NIC src to NIC dst.
func (s *scenario) linkHop(src, dst int) int {
	n := 2*s.NICs + src*(s.NICs-1) + dst
	if dst > src {
		n--
	}
	return n
}

// path is the hops from NIC src to NIC dst.
func (s *scenario) path(src, dst int) [3]int { return [3]int{2 * src, s.linkHop(src, dst), 2*dst + 1} }

// player is the network and the flows of a scenario.
type player []*Flow

func (s *scenario) player(t *testing.T) player {
	t.Helper()
	params := make([]Params, 2*s.NICs+s.NICs*(s.NICs-1))
	for i := range params {
		spec := s.Port
		if i >= 2*s.NICs {
			spec = s.Link
		}
		var err error
		if params[i], err = NewParams(spec, s.TimeScale); err != nil {
			t.Fatal(err)
		}
	}
	tr := s.Transport.Scaled(int64(s.TimeScale))
	net := NewNetwork(params, &tr, tables, s.Seed)
	t.Cleanup(net.Close)
	var p player
	for _, f := range s.Flows {
		there, back := s.path(f.Src, f.Dst), s.path(f.Dst, f.Src)
		p = append(p, net.NewFlow(f.ID, []PathHop{{Hop: there[0]}, {Hop: there[1], Private: true}, {Hop: there[2]}},
			back[:]))
	}
	return p
}

// do makes one step, and returns the time of the flow's next one after a poll.
func (p player) do(s step) (next int64) {
	switch f := p[s.Flow]; s.Do {
	case "post":
		f.Post(s.Size, s.Time)
	case "recv":
		f.Recv(s.Time)
	default:
		return f.Advance(s.Time)
	}
	return 0
}

func (p player) outcome(flow, i int) result {
	m := p[flow].Message(uint64(i))
	return result{m.Due, m.Sent, m.Distortion}
}

// The vectors are times on which two engines agreed, one in Go and one in C, when there were
// two. So a change of any of them is a change of the model: write it into docs/model.md
// before -update.
func TestVectors(t *testing.T) {
	if *update {
		write(t)
		t.Skip("wrote " + vectorsFile)
	}
	text, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []scenario
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("%d scenarios", len(all))
	}
	for i := range all {
		if err := all[i].check(t); err != nil {
			t.Errorf("%s: %v", all[i].Name, err)
		}
	}
}

func (s *scenario) check(t *testing.T) error {
	p := s.player(t)
	for i, st := range s.Steps {
		if next := p.do(st); st.Do == "poll" && next != st.Next {
			return fmt.Errorf("step %d, flow %d polled at %d: next step at %d, want %d", i, st.Flow, st.Time, next,
				st.Next)
		}
	}
	for f, results := range s.Messages {
		for i, want := range results {
			if got := p.outcome(f, i); got != want {
				return fmt.Errorf("flow %d message %d: %+v, want %+v", f, i, got, want)
			}
		}
	}
	return nil
}

// record plays the scenario and fills in its times.
func (s *scenario) record(t *testing.T) {
	p := s.player(t)
	s.Messages = make([][]result, len(s.Flows))
	for i := range s.Steps {
		s.Steps[i].Next = p.do(s.Steps[i])
	}
	for _, st := range s.Steps {
		if st.Do == "post" {
			s.Messages[st.Flow] = append(s.Messages[st.Flow], p.outcome(st.Flow, len(s.Messages[st.Flow])))
		}
	}
}

// write makes the scenarios: one per feature of the model, with posts, irecvs and
// polls at random times of a fixed seed.
func write(t *testing.T) {
	plain := Spec{Bandwidth: 10e9, Latency: 25 * time.Microsecond, MTU: 1500, Header: 40, Framing: 38}
	tcp := Transport{Kind: TCP, SendBuffer: 256 << 10, Window: 384 << 10, RTO: 200e6, DownTimeout: 1e9}
	rdma := Transport{Kind: RDMA, RTO: 67e6, DownTimeout: 500e6}
	kinds := []struct {
		name   string
		change func(s *scenario)
	}{
		{"plain", func(*scenario) {}},
		{"time scale 64", func(s *scenario) { s.TimeScale = 64 }},
		{"unshaped", func(s *scenario) { s.Port.Bandwidth, s.Link.Bandwidth, s.Link.Latency = 0, 0, 0 }},
		{"slow link", func(s *scenario) { s.Link.Bandwidth = 3e9 }},
		{"odd rate", func(s *scenario) { s.Port.Bandwidth, s.Link.Bandwidth = 123_456_789, 123_456_789 }},
		{"uniform jitter", func(s *scenario) { s.Link.Jitter = Jitter{Kind: Uniform, Value: 20_000} }},
		{"normal jitter", func(s *scenario) { s.Link.Jitter = Jitter{Kind: Normal, Value: 9_999} }},
		{"pareto jitter", func(s *scenario) { s.Link.Jitter = Jitter{Kind: Pareto, Value: 7_001} }},
		{"loss", func(s *scenario) { s.Link.Loss.P = 0.01 }},
		{"burst loss", func(s *scenario) { s.Link.Loss = Loss{P: 0.001, BadP: 0.4, GoodToBad: 0.01, BadToGood: 0.2} }},
		{"selective repeat", func(s *scenario) { s.Link.Loss.P, s.Transport.SelectiveRepeat = 0.01, true }},
		{"overhead and gap", func(s *scenario) { s.Transport.Overhead, s.Transport.Gap = 700, 1500 }},
		{"lossless queue", func(s *scenario) { s.Port.QueueBytes, s.Link.QueueBytes = 64<<10, 64<<10 }},
		{"tail drop", func(s *scenario) { s.Port.QueueBytes, s.Port.QueuePolicy = 32<<10, TailDrop }},
		{"down", func(s *scenario) { s.Link.Down = true }},
		{"host", func(s *scenario) {
			s.Transport.Host = Host{PerMessage: 7_500, NsNum: 10, NsDen: 33}
			s.TimeScale = 3
		}},
		{"fair queue", func(s *scenario) {
			s.Port.QueueBytes, s.Port.QueuePolicy, s.Link.QueueBytes, s.Link.QueuePolicy = 64<<10, Fair, 64<<10, Fair
			s.Link.Bandwidth, s.Link.Latency = 3e9, time.Microsecond
		}},
		{"reno", func(s *scenario) {
			s.Transport.Congestion, s.Transport.Second = Reno, 1e9
			s.Port.QueueBytes, s.Port.QueuePolicy, s.Link.Loss.P = 32<<10, TailDrop, 0.005
		}},
		{"cubic", func(s *scenario) {
			s.Transport.Congestion, s.Transport.Second, s.TimeScale = Cubic, 1e9, 3
			s.Port.ECN, s.Link.Loss.P = 16<<10, 0.005
		}},
	}
	var all []scenario
	for i, k := range kinds {
		for _, tr := range []Transport{tcp, rdma} {
			s := scenario{Name: k.name + map[TransportKind]string{TCP: ", tcp", RDMA: ", rdma"}[tr.Kind], NICs: 3,
				Port: plain, Link: plain, Transport: tr, TimeScale: 1, Seed: uint64(1000 + i)}
			s.Port.Latency = 0
			k.change(&s)
			s.Flows = []ends{{ID: 11, Src: 0, Dst: 1}, {ID: 12, Src: 0, Dst: 2}, {ID: 13, Src: 2, Dst: 1}}
			s.Steps = steps(rand.New(rand.NewPCG(uint64(i), uint64(tr.Kind))), len(s.Flows), int64(s.TimeScale))
			s.record(t)
			all = append(all, s)
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	// A scenario a line, so that a change shows where it is.
	if err := os.WriteFile(vectorsFile, append([]byte("[\n"), append(lines(out), "\n]\n"...)...), 0o644); err != nil {
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

func steps(r *rand.Rand, flows int, k int64) []step {
	var out []step
	for f := range flows {
		for _, do := range []string{"post", "recv"} {
			t := int64(0)
			for range 6 {
				t += r.Int64N(80_000 * k)
				s := step{Flow: f, Do: do, Time: t}
				if do == "post" {
					s.Size = []uint64{0, 8, 1460, 65536, 100_000, 300_000}[r.IntN(6)]
				}
				out = append(out, s)
			}
		}
		for range 40 {
			out = append(out, step{Flow: f, Do: "poll", Time: r.Int64N(1_500_000 * k)})
		}
		out = append(out, step{Flow: f, Do: "poll", Time: 400_000_000 * k})
	}
	slices.SortStableFunc(out, func(a, b step) int { return int(min(max(a.Time-b.Time, -1), 1)) })
	return out
}
