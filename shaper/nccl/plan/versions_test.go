// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// What a version changes holds until the next one that changes it.
func TestRulesOfVersions(t *testing.T) {
	const k = 1 << 10
	type changes struct {
		minTraffic                     uint64
		coarse, llFourfold, rounded    bool
		pat, broadcastTasks, hashOrder bool
		unknownSends                   bool
		group                          int
		partsBeforeLL                  bool
	}
	for version, want := range map[int]changes{
		22203: {minTraffic: 512},
		22299: {minTraffic: 512},
		22300: {minTraffic: 16 * k, coarse: true},
		22600: {minTraffic: 16 * k, coarse: true, llFourfold: true},
		22602: {minTraffic: 16 * k, coarse: true, llFourfold: true, pat: true, hashOrder: true},
		22800: {minTraffic: 16 * k, coarse: true, llFourfold: true, pat: true, hashOrder: true, unknownSends: true},
		22809: {minTraffic: 16 * k, coarse: true, llFourfold: true, pat: true, hashOrder: true, group: 8},
		22900: {minTraffic: 32 * k, coarse: true, llFourfold: true, rounded: true, pat: true, hashOrder: true, group: 8,
			partsBeforeLL: true},
		23007: {minTraffic: 32 * k, coarse: true, llFourfold: true, rounded: true, pat: true, hashOrder: true, group: 8,
			partsBeforeLL: true, broadcastTasks: true},
	} {
		r, err := rulesOf(version)
		got := changes{r.minTraffic, r.coarse, r.llFourfold, r.rounded, r.pat, r.broadcastTasks, r.hashOrder,
			r.sends.unknown, r.sends.group, r.sends.partsBeforeLL}
		if err != nil || got != want {
			t.Errorf("%d: %+v, want %+v, %v", version, got, want, err)
		}
		first, _ := rulesOf(versions[0].since)
		same := fmt.Sprint(r.chunks, r.lines, r.sends.within, r.sends.between, r.sends.chunks, r.sends.llThreshold)
		if want := fmt.Sprint(first.chunks, first.lines, first.sends.within, first.sends.between, first.sends.chunks,
			first.sends.llThreshold); same != want {
			t.Errorf("%d: chunks and parts %s, want %s", version, same, want)
		}
	}
	for _, version := range []int{0, 22202, firstUnknown} {
		if _, err := rulesOf(version); err == nil {
			t.Errorf("%d: no error", version)
		}
		if _, err := NewCall(&Decision{Version: version}, nil); err == nil {
			t.Errorf("a call of %d: no error", version)
		}
	}
	last := 0
	for _, v := range versions {
		if v.since <= last {
			t.Errorf("version %d comes after %d", v.since, last)
		}
		last = v.since
	}
}

// A line in the record of a version is enough to change how LL divides data: its messages, the chunks of collectives,
// and the parts, chunks and messages of sends follow.
func TestLLOfARecord(t *testing.T) {
	const k = 1 << 10
	for name, tc := range map[string]struct {
		change     func(r *rules)
		chunk      uint64 // bytes of a collective
		collective uint64 // bytes on the wire of a message of 24 bytes of a collective
		parts      int    // of a send of 24 KiB
		message    []uint64
	}{
		"as it is": {func(*rules) {}, 32 * k, 48, 1, []uint64{32 * k, 16 * k}},
		"other lines": {func(r *rules) { r.lines[LL] = line{12, 16} }, 32 * k, 32, 1,
			[]uint64{divUp(24*k, 12) * 16}},
		"other chunks":    {func(r *rules) { r.chunks[LL] = chunkRule{12, 16, 16} }, 48 * k, 48, 1, []uint64{32 * k, 16 * k}},
		"chunks of sends": {func(r *rules) { r.sends.chunks[LL] = nil }, 32 * k, 48, 1, []uint64{48 * k}},
		"parts of sends":  {func(r *rules) { r.sends.between.smallest = 8 }, 32 * k, 48, 2, []uint64{24 * k}},
		"a lower limit":   {func(r *rules) { r.sends.llThreshold = 8 * k }, 32 * k, 48, 1, []uint64{24 * k}},
		"parts, then LL":  {func(r *rules) { r.sends.partsBeforeLL = true }, 32 * k, 48, 1, []uint64{24 * k}},
	} {
		d := decide(nccl.SendRecv, Ring, LL, 2, 2, 24)
		d.P2PChannels, d.P2PChannelsPerPeer, d.P2PLL = 4, 2, true
		c := newCall(t, &d, func(rank int) int { return rank })
		tc.change(&c.rules)
		const bytes = 24 * k
		parts := c.p2pParts(0, 1, bytes)
		var messages []uint64
		prog := c.messageLoops(parts.number(0), false, nil, []int{0})
		prog.Run(func(a *Action) { messages = append(messages, a.Bytes) })
		if chunk, collective := c.chunkBytes(0), c.slices(6, 4)[0].Bytes; chunk != tc.chunk ||
			collective != tc.collective || parts.channels != tc.parts || !slices.Equal(messages, tc.message) {
			t.Errorf("%s: chunks of %d, a message of %d, %d parts of %v", name, chunk, collective, parts.channels, messages)
		}
	}
}
