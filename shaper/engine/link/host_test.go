// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNewHostRefuses(t *testing.T) {
	for _, tc := range []struct {
		per  time.Duration
		rate uint64
	}{{-1, 0}, {MaxLatency + 1, 0}, {0, MinBandwidth - 1}, {0, MaxBandwidth + 1}} {
		if h, err := NewHost(tc.per, tc.rate); err == nil {
			t.Errorf("%v at %d bit/s: %+v", tc.per, tc.rate, h)
		}
	}
}

// Time is what exact arithmetic gives, rounded up, at every rate and scale.
func TestPropertyHostTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		per := rapid.Int64Range(0, int64(MaxLatency)).Draw(t, "per message")
		rate := rapid.Uint64Range(MinBandwidth, MaxBandwidth).Draw(t, "rate")
		k := rapid.Int64Range(1, MaxTimeScale).Draw(t, "k")
		size := rapid.Uint64Range(0, 1<<36).Draw(t, "size")
		h, err := NewHost(time.Duration(per), rate)
		if err != nil {
			t.Fatal(err)
		}
		h = Transport{Host: h}.Scaled(k).Host
		num := new(big.Int).Mul(new(big.Int).SetUint64(size), big.NewInt(8e9*k))
		ns, rest := new(big.Int).QuoRem(num, new(big.Int).SetUint64(rate), new(big.Int))
		want := per*k + ns.Int64()
		if rest.Sign() != 0 {
			want++
		}
		if got := h.Time(size); got != want {
			t.Fatalf("%d bytes: %d ns, want %d", size, got, want)
		}
	})
}

// hosted is a gigabit star whose hosts take 10 us per message and copy at 1 GB/s.
func hosted(t *testing.T, kind TransportKind) *fabric {
	port, wire := gigabit(20 * time.Microsecond)
	tr := &Transport{Kind: kind, SendBuffer: 1 << 30, Window: 1 << 30, RTO: 1e9, DownTimeout: 1e9,
		Host: Host{PerMessage: 10_000, NsNum: 1, NsDen: 1}}
	return newFabric(t, 3, port, wire, 1, tr)
}

// play polls flows in turn, as often as the model asks for it.
func play(flows []*Flow, until int64) {
	for now := int64(0); now <= until; {
		next := int64(Never)
		for _, f := range flows {
			next = min(next, f.Advance(now))
		}
		now = max(now+1, next)
	}
}

// Both hosts store and forward a message. Nothing else about it changes.
func TestHostIsPaidAtBothEnds(t *testing.T) {
	for _, kind := range []TransportKind{TCP, RDMA} {
		f := hosted(t, kind)
		bare := *f.net.transport
		bare.Host = Host{}
		for _, size := range []uint64{0, 8, 100_000} {
			due, sent := func(tr *Transport) (int64, int64) {
				g := newFabric(t, 3, Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38},
					Spec{Bandwidth: 1e9, Latency: 20 * time.Microsecond, MTU: 1500, Header: 40, Framing: 38}, 1, tr)
				a := g.flow(0, 1)
				a.Recv(0)
				a.Post(size, 50_000)
				play([]*Flow{a}, 10e6)
				return a.Message(0).Due, a.Message(0).Sent
			}, int64(10_000+size)
			d0, s0 := due(&bare)
			d1, s1 := due(f.net.transport)
			if d1 != d0+2*sent {
				t.Errorf("transport %d, %d bytes: due at %d, want %d and twice %d", kind, size, d1, d0, sent)
			}
			// The sender is not told what the receiving host does.
			if s1 != s0+sent {
				t.Errorf("transport %d, %d bytes: sent at %d, want %d and %d", kind, size, s1, s0, sent)
			}
		}
	}
}

// The flows of a NIC wait for its worker, in the order of their messages. Other NICs, and the
// other direction, have other workers.
func TestHostIsSharedByTheFlowsOfANIC(t *testing.T) {
	const n, work = 1000, 11_000
	alone := func() int64 {
		f := hosted(t, RDMA)
		a := f.flow(0, 1)
		a.Recv(0)
		a.Post(n, 100_000)
		play([]*Flow{a}, 1e6)
		return a.Message(0).Due
	}()
	for _, tc := range []struct {
		name string
		ends [2][2]int
		wait int64 // of the second flow's message
	}{
		{"same sender", [2][2]int{{0, 1}, {0, 2}}, work},
		{"same receiver", [2][2]int{{0, 2}, {1, 2}}, work},
		{"same pair", [2][2]int{{0, 1}, {0, 1}}, work},
		{"one each way", [2][2]int{{0, 1}, {1, 0}}, 0},
		{"in and out of one NIC", [2][2]int{{0, 1}, {1, 2}}, 0},
	} {
		f := hosted(t, RDMA)
		a, b := f.flow(tc.ends[0][0], tc.ends[0][1]), f.flow(tc.ends[1][0], tc.ends[1][1])
		for _, g := range []*Flow{a, b} {
			g.Recv(0)
			g.Post(n, 100_000)
		}
		play([]*Flow{a, b}, 1e6)
		if got := a.Message(0).Due; got != alone {
			t.Errorf("%s: first due at %d, want %d", tc.name, got, alone)
		}
		if got := b.Message(0).Due - alone; got != tc.wait {
			t.Errorf("%s: second due %d later than alone, want %d", tc.name, got, tc.wait)
		}
	}
}

// A worker handles the next message while the line carries the last one: the slower of the
// two determines the rate.
func TestHostIsAPipeline(t *testing.T) {
	const n, count = 100_000, 50
	for _, tc := range []struct {
		name string
		host Host
	}{
		{"wire", Host{PerMessage: 10_000, NsNum: 1, NsDen: 1}},
		{"host", Host{PerMessage: 10_000, NsNum: 20, NsDen: 1}},
	} {
		f := hosted(t, RDMA)
		f.net.transport.Host = tc.host
		a := f.flow(0, 1)
		for range count {
			a.Recv(0)
			a.Post(n, 100_000)
		}
		play([]*Flow{a}, 1e9)
		each := (a.Message(count-1).Due - a.Message(0).Due) / (count - 1)
		want := tc.host.Time(n)
		if tc.name == "wire" {
			want = n * 8 * 1538 / 1460
		}
		if each < want*999/1000 || each > want*1001/1000 {
			t.Errorf("bound by the %s: %d ns per message, want %d", tc.name, each, want)
		}
	}
}
