// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"
	"time"
)

// A message of one packet on an idle path takes 2 o + L + the time of its bytes on the
// slowest hop: the LogGP model with cut-through switches, wherever the slowest hop is.
func TestOneMessageTakesLogGPsTime(t *testing.T) {
	const o, latency, size = 700, 5_000, 1000
	for slow, name := range []string{"send port", "link", "receive port"} {
		fast := Spec{Bandwidth: 10e9, MTU: 1500, Header: 40, Framing: 38}
		between := fast
		between.Latency = latency * time.Nanosecond
		tr := tcp()
		tr.Overhead = o
		f := newFabric(t, 2, fast, between, 1, tr)
		p, err := NewParams(Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38}, 1)
		if err != nil {
			t.Fatal(err)
		}
		hops := []hop{f.tx[0], f.links[[2]int{0, 1}], f.rx[1]}
		p.Latency = hops[slow].Params.Latency
		*hops[slow].Params = p
		fl := f.flow(0, 1)
		fl.Recv(0)
		fl.Post(size, 0)
		run(0, fl)
		const onLine = (size + 40 + 38) * 8 // ns at 1 Gb/s
		if got, want := fl.Message(0).Due, int64(2*o+latency+onLine); got != want {
			t.Errorf("slow %s: due at %d, want %d", name, got, want)
		}
	}
}
