// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/schedule"
)

// one is a schedule of one step of count chunks among total.
func one(kind schedule.Kind, count, total int, proto schedule.Protocol, grain int64) *schedule.Schedule {
	s := &schedule.Schedule{Coll: schedule.AllReduce, Proto: proto, LoopChunks: total, Grain: grain, GPUs: make([]schedule.GPU, 2)}
	s.GPUs[0].Blocks = []schedule.Block{{Send: 1, Recv: 1, Steps: []schedule.Step{{Kind: kind, Count: count, DepBlock: schedule.None}}}}
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
	messages, payload, largest := uint64(0), uint64(0), uint64(0)
	for ; !p.Done(); p.Next() {
		var a schedule.Action
		p.Current(&a)
		for i := a.Src / 4; i < (a.Src+a.Payload)/4; i++ {
			seen[i]++
		}
		if a.Sends() {
			messages++
			payload += a.Payload
			largest = max(largest, a.Payload)
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
		t.Errorf("%+v: %d messages of %d bytes; Messages says %d, EachMessage %d of %d", c, messages, payload, out, number, sum)
	}
	if most, _ := c.LargestMessage(); largest > most {
		t.Errorf("a message of %d bytes, the largest is said to have %d", largest, most)
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
		proto         schedule.Protocol
		payload, wire uint64
	}{{schedule.Simple, 1 << 20, 1 << 20}, {schedule.LL, 32 << 10, 64 << 10}, {schedule.LL128, 576000, 614400}} {
		c, err := one(schedule.SendStep, 1, 1, tc.proto, 0).Cut(64<<20, 4)
		if err != nil {
			t.Fatal(err)
		}
		if p, w := c.LargestMessage(); p != tc.payload || w != tc.wire {
			t.Errorf("%s: %d bytes are %d, want %d and %d", tc.proto, p, w, tc.payload, tc.wire)
		}
	}
}

func TestCutRefuses(t *testing.T) {
	for size, want := range map[uint64]string{3: "give 4 or more", 1 << 60: "must be at most"} {
		if _, err := one(schedule.SendStep, 1, 1, schedule.Simple, 0).Cut(size, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", size, err, want)
		}
	}
}

func TestParseCollective(t *testing.T) {
	for text, want := range map[string]schedule.Collective{"reduce_scatter": schedule.ReduceScatter, "AllReduce": schedule.AllReduce, "all-to-all": schedule.AllToAll, "alltoallv": schedule.AllToAllV} {
		if got, err := schedule.ParseCollective(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	if _, err := schedule.ParseCollective("allsum"); err == nil || !strings.Contains(err.Error(), "there are all_reduce, ") {
		t.Error(err)
	}
}
