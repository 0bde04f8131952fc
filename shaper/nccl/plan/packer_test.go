// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// A call begins on the channel on which the one before it ended, if that is not full.
func TestPacker(t *testing.T) {
	const k = 1 << 10
	for _, tc := range []struct {
		version int
		bytes   []uint64 // of all-reduces, whose traffic is twice that
		want    string   // for each call: the first channel, and the elements of each
	}{
		{22203, []uint64{2 * k, 2 * k, 4 * k}, "0 [512], 0 [512], 1 [1024]"},
		{22203, []uint64{4 * k, 4 * k}, "0 [1024], 1 [1024]"},
		{22203, []uint64{2 * k, 6 * k}, "0 [512], 0 [512 1024]"},
		{22907, []uint64{2 * k, 2 * k, 4 * k}, "0 [512], 0 [512], 1 [1024]"}, // each counts for 32 KiB
		{22907, []uint64{64 * k, 192 * k}, "0 [16384], 0 [16384 32768]"},
	} {
		r, err := rulesOf(tc.version)
		if err != nil {
			t.Fatal(err)
		}
		calls, sum := grouped(tc.version, tc.bytes...), uint64(0)
		for i := range calls {
			sum += r.traffic(calls[i].shape(), Simple)
		}
		p := newPacker(r, sum, 2, 2)
		var got []string
		for i := range calls {
			first, counts := p.place(calls[i].shape(), Simple)
			got = append(got, fmt.Sprint(first, counts))
		}
		want := strings.ReplaceAll(tc.want, " [", "[")
		if text := strings.ReplaceAll(strings.Join(got, ", "), " [", "["); text != want {
			t.Errorf("%d, %v: %s, want %s", tc.version, tc.bytes, text, want)
		}
	}
}

// All elements of a group's calls are on channels that the communicator has, from the first one on without a gap, and
// no channel but the last one has more traffic than its share and a cell.
func TestPropertyGroupsAreDivided(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		channels := rapid.IntRange(1, 8).Draw(t, "channels")
		version := rapid.SampledFrom([]int{22203, 22304, 22603, 22907}).Draw(t, "version")
		r, err := rulesOf(version)
		if err != nil {
			t.Fatal(err)
		}
		var calls []Decision
		sum := uint64(0)
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			d := decide(nccl.Collective(rapid.IntRange(int(nccl.AllReduce), int(nccl.Reduce)).Draw(t, "collective")),
				Ring,
				Protocol(rapid.IntRange(int(LL), int(Simple)).Draw(t, "protocol")), 4, channels, 0)
			d.Version, d.ElemSize = version, rapid.SampledFrom([]uint64{1, 2, 4, 8}).Draw(t, "element")
			d.Count = rapid.Uint64Range(1, 1<<24).Draw(t, "count") >> rapid.IntRange(0, 20).Draw(t,
				"shift") / d.ElemSize
			d.Count = max(d.Count, 1)
			calls = append(calls, d)
			sum += r.traffic(d.shape(), d.Proto)
		}
		p := newPacker(r, sum, rapid.IntRange(1, channels).Draw(t, "limit"), channels)
		traffic, next := make([]uint64, channels), 0
		for i := range calls {
			s := calls[i].shape()
			first, counts := p.place(s, calls[i].Proto)
			if first > next || first+len(counts) > channels {
				t.Fatalf("call %d is on %d channels from %d on; the one before ended before %d, and there are %d", i,
					len(counts), first, next, channels)
			}
			elements := uint64(0)
			for c, n := range counts {
				elements += n
				traffic[first+c] += n * s.elem * r.perByte(s, calls[i].Proto)
			}
			if elements != s.count {
				t.Fatalf("call %d of %d elements: %v", i, s.count, counts)
			}
			next = first + len(counts)
		}
		cell := uint64(16 * 4 * 4)
		if r.coarse {
			cell = 2*r.minTraffic + 16*16
		}
		for c, n := range traffic[:channels-1] {
			if n > 2*p.perChannel+cell {
				t.Fatalf("channel %d has traffic %d, each should have %d", c, n, p.perChannel)
			}
		}
	})
}
