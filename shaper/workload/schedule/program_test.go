// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// one is a schedule of one step of count chunks among total.
func one(kind schedule.Kind, count, total int, proto schedule.Protocol, grain int64) *schedule.Schedule {
	s := &schedule.Schedule{Coll: schedule.AllReduce, Proto: proto, LoopChunks: total, Grain: grain,
		GPUs: make([]schedule.GPU, 2)}
	s.GPUs[0].Blocks = []schedule.Block{
		{Send: 1, Recv: 1, Steps: []schedule.Step{{Kind: kind, Count: count, DepBlock: schedule.None}}}}
	return s
}

// The actions of a step cover each byte of its chunks once, and are as many as Messages and EachMessage say.
func TestProgramCoversAll(t *testing.T) {
	for _, proto := range []schedule.Protocol{schedule.Simple, schedule.LL, schedule.LL128} {
		for _, grain := range []int64{0, 256, 1 << 20} {
			for _, count := range []int{1, 3, 7} {
				for _, size := range []uint64{7 * 4, 7 * 4096, 7 * 4 * 123457, 40 << 20} {
					covers(t, one(schedule.SendStep, count, 7, proto, grain), size)
					covers(t, one(schedule.CopyStep, count, 7, proto, grain), size)
				}
			}
		}
	}
}

func covers(t *testing.T, s *schedule.Schedule, size uint64) {
	t.Helper()
	c, err := s.Cut(size, 4)
	if err != nil {
		t.Fatal(err)
	}
	if c.Bytes > size || size-c.Bytes >= 7*4 {
		t.Errorf("%d bytes are rounded to %d", size, c.Bytes)
	}
	sh, err := s.Shape()
	if err != nil {
		t.Fatal(err)
	}
	l := s.Layout(0, true, 0, sh)
	b := &s.GPUs[0].Blocks[0]
	seen := make([]uint8, c.Chunk/4*7)
	p := schedule.NewProgram(b, &c, &l)
	messages, payload, largest, wire := uint64(0), uint64(0), uint64(0), uint64(0)
	for ; !p.Done(); p.Next() {
		var a schedule.Action
		p.Current(&a)
		for i := a.Src / 4; i < (a.Src+a.Payload)/4; i++ {
			seen[i]++
		}
		if a.Step.Sends() {
			messages++
			payload += a.Payload
			largest, wire = max(largest, a.Payload), max(wire, a.Wire)
		}
	}
	for i, n := range seen {
		if want := uint8(1); uint64(i) >= c.Chunk/4*uint64(b.Steps[0].Count) {
			if n != 0 {
				t.Fatalf("%+v: element %d beyond the step is touched", c, i)
			}
		} else if n != want {
			t.Fatalf("%+v: element %d is touched %d times", c, i, n)
		}
	}
	var sum, number uint64
	c.EachMessage(b, func(bytes, _, times uint64) { sum += bytes * times; number += times })
	out, _ := c.Messages(b)
	if number != messages || out != messages || sum != payload {
		t.Errorf("%+v: %d messages of %d bytes; Messages says %d, EachMessage %d of %d", c, messages, payload, out,
			number, sum)
	}
	if most := c.Largest(b); wire != most {
		t.Errorf("a message of %d bytes on the wire, the largest is said to have %d", wire, most)
	}
	if s.Grain > 0 && largest > uint64(s.Grain) && c.Proto == schedule.Simple {
		t.Errorf("%+v: a message of %d bytes", c, largest)
	}
}

// LL sends twice the bytes, LL128 a sixteenth more. The buffers are NCCL's.
func TestProtocols(t *testing.T) {
	for proto, want := range map[schedule.Protocol]schedule.Cut{
		schedule.Simple: {Piece: 2 << 20, Slices: 2, Slots: 4},
		schedule.LL:     {Piece: 32 << 10, Slices: 1, Slots: 8},
		schedule.LL128:  {Piece: 576000, Slices: 1, Slots: 8},
	} {
		c, err := one(schedule.SendStep, 1, 1, proto, 0).Cut(64<<20, 4)
		if err != nil {
			t.Fatal(err)
		}
		if c.Piece != want.Piece || c.Slices != want.Slices || c.Slots != want.Slots {
			t.Errorf("%s: %+v, want %+v", proto, c, want)
		}
	}
	for _, tc := range []struct {
		proto schedule.Protocol
		wire  uint64
	}{{schedule.Simple, 1 << 20}, {schedule.LL, 64 << 10}, {schedule.LL128, 614400}} {
		s := one(schedule.SendStep, 1, 1, tc.proto, 0)
		c, err := s.Cut(64<<20, 4)
		if err != nil {
			t.Fatal(err)
		}
		if w := c.Largest(&s.GPUs[0].Blocks[0]); w != tc.wire {
			t.Errorf("%s: %d bytes on the wire, want %d", tc.proto, w, tc.wire)
		}
	}
}

func TestCutRefuses(t *testing.T) {
	for size, want := range map[uint64]string{3: "give 4 or more", 1 << 60: "must be at most"} {
		if _, err := one(schedule.SendStep, 1, 1, schedule.Simple, 0).Cut(size, 4); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", size, err, want)
		}
	}
}

func TestParseCollective(t *testing.T) {
	for text, want := range map[string]schedule.Collective{"reduce_scatter": schedule.ReduceScatter,
		"AllReduce": schedule.AllReduce, "all-to-all": schedule.AllToAll, "alltoallv": schedule.AllToAllV} {
		if got, err := schedule.ParseCollective(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	if _, err := schedule.ParseCollective("allsum"); err == nil ||
		!strings.Contains(err.Error(), "there are all_reduce, ") {
		t.Error(err)
	}
}

// With Whole, a step is over before the next begins: there is one loop, and each message has at most 128 KiB. The
// protocol of a step decides what its messages are on the wire, and a signal has 8 bytes.
func TestWhole(t *testing.T) {
	for _, size := range []uint64{7 * 4, 7 * 4096, 7 * 4 * 123457, 40 << 20} {
		for _, grain := range []int64{0, 4096} {
			s := one(schedule.SendStep, 3, 7, schedule.Simple, grain)
			s.Whole = true
			covers(t, s, size)
			c, err := s.Cut(size, 4)
			if err != nil {
				t.Fatal(err)
			}
			most := uint64(128 << 10)
			if grain > 0 {
				most = uint64(grain)
			}
			b := &s.GPUs[0].Blocks[0]
			if got := c.Largest(b); c.Loops != 1 || got > most || got < min(most/2, c.Chunk) {
				t.Errorf("%+v: messages of %d bytes, at most %d", c, got, most)
			}
			b.Steps[0].Proto = schedule.LL
			if got := c.Largest(b); got < c.Chunk*2/uint64(c.Slices) {
				t.Errorf("%+v: packets of %d bytes", c, got)
			}
			b.Steps = append(b.Steps, schedule.Step{Kind: schedule.SignalStep, Count: 1, DepBlock: schedule.None,
				DepStep: schedule.None})
			before, _ := c.Messages(&schedule.Block{Steps: b.Steps[:1]})
			if out, _ := c.Messages(b); out != before+1 || c.Largest(&schedule.Block{Steps: b.Steps[1:]}) != 8 {
				t.Errorf("%d messages, %d without the signal", out, before)
			}
		}
	}
	s := one(schedule.SendStep, 1, 1, schedule.Simple, 0)
	s.Align = 48
	if c, err := s.Cut(100, 4); err != nil || c.Chunk != 96 {
		t.Errorf("%+v, %v: want a chunk of 96 bytes", c, err)
	}
	if _, err := s.Cut(47, 4); err == nil {
		t.Error("47 bytes are not refused")
	}
}
