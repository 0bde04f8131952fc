// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"
	"time"
)

// BenchmarkFlow is what the engine's steps of 16 messages of 1 MiB cost, which two flows with the same ports send.
func BenchmarkFlow(b *testing.B) {
	cubic := tcp()
	cubic.Congestion, cubic.Second = Cubic, 1e9
	for _, c := range []struct {
		name string
		tr   *Transport
		port Spec
		loss Loss
	}{
		{"tcp", tcp(), Spec{}, Loss{}},
		{"rdma", rdma(), Spec{QueueBytes: 1 << 20}, Loss{}},
		{"fair", rdma(), Spec{QueueBytes: 1 << 20, QueuePolicy: Fair}, Loss{}},
		{"cubic", cubic, Spec{QueueBytes: 1 << 20, QueuePolicy: TailDrop}, Loss{}},
		{"lossy", rdma(), Spec{}, Loss{P: 1e-4}},
	} {
		b.Run(c.name, func(b *testing.B) {
			port := c.port
			port.Bandwidth, port.MTU = 100e9, 4096
			wire := port
			wire.Latency, wire.Loss = 5*time.Microsecond, c.loss
			f := newFabric(b, 3, port, wire, 1, c.tr)
			flows := []*Flow{f.flow(0, 1), f.flow(0, 2)}
			var now int64
			for b.Loop() {
				for range 16 {
					for _, fl := range flows {
						fl.Post(1<<20, now)
						fl.Recv(now)
					}
				}
				now = run(now, flows...)
				for range 16 {
					for _, fl := range flows {
						fl.Take()
					}
				}
			}
		})
	}
}
