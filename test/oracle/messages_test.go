// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// transfer is messages between NICs, of which some wait for others.
type transfer []message

type message struct {
	src, dst, channel int
	packets           int
	after             int // the message that must have arrived at src before this one is sent; -1 for none
}

// ring is the messages of a ring of n NICs: in each of so many steps, a NIC sends on each channel what it received in
// the step before.
func ring(n, channels, steps, packets int) (all transfer) {
	for step := range steps {
		for src := range n {
			for channel := range channels {
				after := -1
				if step > 0 {
					after = ((step-1)*n+(src+n-1)%n)*channels + channel
				}
				all = append(all, message{src, (src + 1) % n, channel, packets, after})
			}
		}
	}
	return all
}

// allToAll has a message from each NIC to each other one, the nearest first. With rounds, a NIC sends the next message
// when it has received one.
func allToAll(n, channels, packets int, rounds bool) (all transfer) {
	for distance := 1; distance < n; distance++ {
		for src := range n {
			for channel := range channels {
				after := -1
				if rounds && distance > 1 {
					after = ((distance-2)*n+(src+n-distance+1)%n)*channels + channel
				}
				all = append(all, message{src, (src + distance) % n, channel, packets, after})
			}
		}
	}
	return all
}

// followers are the messages that wait for each message.
func (all transfer) followers() [][]int {
	out := make([][]int, len(all))
	for i, m := range all {
		if m.after >= 0 {
			out[m.after] = append(out[m.after], i)
		}
	}
	return out
}

// flows numbers the flows of the messages, by sender and then by channel in the order of the messages, and returns the
// flow of each message.
func (all transfer) flows() (of []int, demands []demand) {
	number := map[[3]int]int{}
	of = make([]int, len(all))
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return all[a].src - all[b].src })
	for _, i := range order {
		m := all[i]
		key := [3]int{m.src, m.dst, m.channel}
		if _, ok := number[key]; !ok {
			number[key] = len(demands)
			demands = append(demands, demand{m.src, m.dst})
		}
		of[i] = number[key]
	}
	return of, demands
}

// wires are what messages cross, in the link model and in the packet simulator.
type wires struct {
	flows   func(demands []demand) []*link.Flow
	sim     func() *sim
	add     func(s *sim, d demand) *flow // of the simulator, without packets
	payload int                          // bytes of a packet
}

// nics are the wires between the NICs of a fabric.
func nics(t *testing.T, f *fabric.Fabric) *wires {
	return &wires{
		flows:   func(demands []demand) []*link.Flow { return flowsOf(t, f, demands) },
		sim:     func() *sim { return newSim(f) },
		add:     func(s *sim, d demand) *flow { return s.add(f, d.src, d.dst, 0) },
		payload: packetPayload,
	}
}

// inModel is the time until the last message has arrived, in the link model.
func inModel(w *wires, all transfer) float64 {
	of, demands := all.flows()
	flows, followers := w.flows(demands), all.followers()
	next, posted, done := make([]int64, len(flows)), make([][]int, len(flows)), make([]int, len(flows))
	post := func(i int, now int64) {
		fl := of[i]
		flows[fl].Recv(now - 1e6) // the sender knows of it
		flows[fl].Post(uint64(all[i].packets*w.payload), now)
		posted[fl], next[fl] = append(posted[fl], i), min(next[fl], now)
	}
	for i := range next {
		next[i] = link.Never
	}
	for i, m := range all {
		if m.after < 0 {
			post(i, 0)
		}
	}
	for last := int64(0); ; {
		fl := 0
		for i := range next {
			if next[i] < next[fl] {
				fl = i
			}
		}
		now := next[fl]
		if now == link.Never {
			return float64(last)
		}
		next[fl] = flows[fl].Advance(now)
		for done[fl] < len(posted[fl]) {
			due := flows[fl].Message(uint64(done[fl])).Due
			if due > now {
				next[fl] = min(next[fl], due)
				break
			}
			last = max(last, now)
			for _, i := range followers[posted[fl][done[fl]]] {
				post(i, now)
			}
			done[fl]++
			flows[fl].Take()
		}
	}
}

// inPackets is the same in the packet simulator.
func inPackets(w *wires, all transfer) float64 {
	s := w.sim()
	s.cutThrough = true
	of, demands := all.flows()
	followers := all.followers()
	flows, posted := make([]*flow, len(demands)), make([][]int, len(demands))
	post := func(i int) {
		posted[of[i]] = append(posted[of[i]], i)
		s.post(flows[of[i]], all[i].packets)
	}
	for i, d := range demands {
		flows[i] = w.add(s, d)
		received, port := 0, flows[i].path[0]
		port.sources = port.sources[:len(port.sources)-1] // it has nothing to send yet
		flows[i].onArrival = func() {
			received++
			m := posted[i][0]
			if received < all[m].packets {
				return
			}
			received, posted[i] = 0, posted[i][1:]
			for _, k := range followers[m] {
				post(k)
			}
		}
	}
	for i, m := range all {
		if m.after < 0 {
			post(i)
		}
	}
	s.run(math.Inf(1))
	return s.now
}

// Messages that wait for each other take as long as by packets, whatever their size. A segment has 7 packets at most,
// so a message of 8 has two, and one of 15 three.
func TestMessagesTakeAsLongAsPackets(t *testing.T) {
	f := net(t, 8, "lossless", configs.Topology{})
	for _, packets := range []int{1, 6, 7, 8, 9, 13, 14, 15, 16, 21, 22, 29} {
		for name, all := range map[string]transfer{
			"ring, 4 channels":           ring(8, 4, 14, packets),
			"ring, 1 channel":            ring(8, 1, 14, packets),
			"all to all":                 allToAll(8, 1, packets, false),
			"all to all, 2 channels":     allToAll(8, 2, packets, false),
			"all to all in rounds":       allToAll(8, 4, packets, true),
			"all to all in rounds, of 1": allToAll(8, 1, packets, true),
		} {
			t.Run(fmt.Sprintf("%s, %d packets", name, packets), func(t *testing.T) {
				got, want := inModel(nics(t, f), all), inPackets(nics(t, f), all)
				t.Logf("%.1f us, by packets %.1f: %+.2f %%", got/1e3, want/1e3, 100*(got/want-1))
				if math.Abs(got/want-1) > tolerance {
					t.Errorf("%.1f us, by packets %.1f: %+.1f %% off", got/1e3, want/1e3, 100*(got/want-1))
				}
			})
		}
	}
}
