// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/gopacket/layers"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
)

func (b bench) tap() *Tap {
	return &Tap{ring: b.Maps[shapeMapTapRing], missed: b.Maps[shapeMapTapMissed], snap: b.Variables[shapeVarTapSnap]}
}

// openTap opens the tap, until the end of the test.
func (b bench) openTap(snap int) tap.Reader {
	b.Helper()
	r, err := b.tap().Open(snap)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

// read returns the records that there are.
func (b bench) read(r tap.Reader) (all []tap.Record) {
	b.Helper()
	for {
		var got tap.Record
		err := r.Read(&got)
		if errors.Is(err, tap.ErrNone) {
			return all
		}
		if err != nil {
			b.Fatal(err)
		}
		got.Data = bytes.Clone(got.Data)
		all = append(all, got)
	}
}

// The tap says what happened to a packet, when it came and when it will arrive, and has its first bytes.
func TestTap(t *testing.T) {
	const limit = 1 << 30 // 8.6 s at 1 Gb/s
	base := link.Spec{Bandwidth: 1e9, Latency: time.Millisecond, QueueBytes: limit, QueuePolicy: link.TailDrop,
		MTU: 1500, Header: 40, Framing: 38}
	lossy, down := base, base
	lossy.Loss, down.Down = link.Loss{P: 1}, true
	const ect0, ce = 2, 3
	for _, tc := range []struct {
		name string
		spec link.Spec
		hop  uint32
		wait time.Duration // until the hop is free
		want tap.Fate
	}{
		{"sent", base, receivePort, 0, tap.Sent},
		{"marked", base, receivePort, 6 * time.Second, tap.Marked},
		{"lost", lossy, receivePort, 0, tap.Lost},
		{"down", down, receivePort, 0, tap.Down},
		{"link full", base, linkHop, 12 * time.Second, tap.LinkFull},
		{"port full", base, receivePort, 12 * time.Second, tap.PortFull},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.spec, 1)
			sent := packet(t, 0, 1, ect0, layers.TCP{ACK: true}, make([]byte, 1000))
			b.run(shapeProgRx, sent) // the tap is not open
			r := b.openTap(100)
			before := monotonic(t)
			b.put(shapeMapHops, tc.hop, shapeHop{NextFree: before + uint64(tc.wait)})
			verdict, _, leaves := b.run(shapeProgRx, sent)
			all := b.read(r)
			if len(all) != 1 {
				t.Fatalf("%d records: %+v", len(all), all)
			}
			got := all[0]
			if got.Fate != tc.want || got.Hop != linkHop || got.Length != uint32(len(sent)) || got.Packets != 1 ||
				got.Missed != 0 {
				t.Errorf("%+v", got)
			}
			if got.Fate.Dropped() != (verdict == actShot) {
				t.Errorf("fate %d, verdict %d of the program", got.Fate, int32(verdict))
			}
			if now := monotonic(t); uint64(got.Enqueued) < before || uint64(got.Enqueued) > now {
				t.Errorf("it came at %d, not between %d and %d", got.Enqueued, before, now)
			}
			if want := leaves; got.Fate.Dropped() && got.Departs != 0 || !got.Fate.Dropped() &&
				uint64(got.Departs) != want {
				t.Errorf("it arrives at %d, want %d", got.Departs, want)
			}
			want := bytes.Clone(sent[:100])
			if tc.want == tap.Marked {
				want[15] |= ce
				copy(want[24:26], got.Data[24:26]) // the checksum of the header follows
			}
			if !bytes.Equal(got.Data, want) {
				t.Errorf("data % x\nwant % x", got.Data, want)
			}
		})
	}
}

// Records that do not fit into the ring buffer are counted, and a tap that is opened later begins at 0.
func TestTapMisses(t *testing.T) {
	b := newBench(t, link.Spec{MTU: 1500, Header: 40, Framing: 38}, 1)
	sent := packet(t, 0, 1, 0, layers.TCP{ACK: true}, make([]byte, 10))
	r := b.openTap(tap.MaxSnap)
	const packets = 40_000
	if _, _, err := b.Programs[shapeProgRx].Benchmark(sent, packets, nil); err != nil {
		t.Fatal(err)
	}
	got := uint64(len(b.read(r)))
	missed, err := r.Missed()
	if err != nil {
		t.Fatal(err)
	}
	if got < 20_000 || missed[linkHop] == 0 || got+missed[linkHop] != packets {
		t.Errorf("%d records, %v missed of %d", got, missed, packets)
	}
	b.run(shapeProgRx, sent)
	if all := b.read(r); len(all) != 1 || all[0].Missed != missed[linkHop] || len(all[0].Data) != len(sent) {
		t.Errorf("the next record: %+v", all)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = b.openTap(1)
	if missed, err := r.Missed(); err != nil || len(missed) != 0 {
		t.Errorf("a new tap has missed %v, %v", missed, err)
	}
}

// BenchmarkTap is the time of the program on the switch's port per packet.
func BenchmarkTap(b *testing.B) {
	for name, snap := range map[string]int{"closed": 0, "open, 96 B": 96, "open, 256 B": 256} {
		b.Run(name, func(b *testing.B) {
			t := newBench(b, link.Spec{MTU: 1500, Header: 40, Framing: 38}, 1)
			sent := packet(b, 0, 1, 0, layers.TCP{ACK: true}, make([]byte, 1000))
			const batch = 20_000 // the ring buffer has room for them
			var sum time.Duration
			for n := 0; n < b.N; n += batch {
				var r tap.Reader
				if snap > 0 {
					var err error
					if r, err = t.tap().Open(snap); err != nil {
						b.Fatal(err)
					}
				}
				_, d, err := t.Programs[shapeProgRx].Benchmark(sent, batch, nil)
				if err != nil {
					b.Fatal(err)
				}
				sum += d
				if r != nil {
					if err := r.Close(); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(sum.Nanoseconds())/float64((b.N+batch-1)/batch), "ns/packet")
		})
	}
}
