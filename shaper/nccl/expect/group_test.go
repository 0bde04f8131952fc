// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// grouped are all-reduces of 4-byte elements, of so many bytes.
func grouped(version int, bytes ...uint64) []Decision {
	var out []Decision
	for _, n := range bytes {
		d := decide(nccl.AllReduce, Ring, Simple, 4, 2, n)
		d.Version = version
		out = append(out, d)
	}
	return out
}

// NCCL runs the kinds of calls in the order of their largest one, those of a kind from the smallest to the largest, and
// decides at once on those of a kind that are less than four times as large as the smallest one.
func TestAggregates(t *testing.T) {
	const k = 1 << 10
	broadcast := func(d Decision, root int) Decision {
		d.Coll, d.Root = nccl.Broadcast, root
		return d
	}
	mixed := grouped(22203, 64*k, 16*k, 16*k, 512*k)
	mixed[0] = broadcast(mixed[0], 1)
	early, late := grouped(22203, 128*k, 64*k), grouped(22907, 128*k, 64*k)
	early[0], late[0] = broadcast(early[0], 3), broadcast(late[0], 3)
	roots := grouped(22907, 64*k, 16*k)
	roots[0], roots[1] = broadcast(roots[0], 0), broadcast(roots[1], 1)
	for name, tc := range map[string]struct {
		calls   []Decision
		classes string
		want    string
	}{
		"one":                       {grouped(22203, 8), "a", "[[0]]"},
		"within four times":         {grouped(22203, 300*k, 100*k, 390*k), "aaa", "[[1 0 2]]"},
		"four times and more":       {grouped(22203, 400*k, 100*k, 300*k), "aaa", "[[1 2] [0]]"},
		"equal ones in their turn":  {grouped(22203, 8, 8, 8), "aaa", "[[0 1 2]]"},
		"a bin has no order":        {grouped(22203, 9*k, 8*k), "aa", "[[0 1]]"},
		"types apart":               {grouped(22203, 8*k, 16*k, 8*k), "aba", "[[1] [0 2]]"},
		"types of one bin":          {grouped(22203, 8*k, 8*k), "ab", "[[1] [0]]"},
		"functions apart":           {mixed, "aaaa", "[[1 2] [3] [0]]"},
		"a broadcast of 2.22":       {early, "aa", "[[1] [0]]"},
		"2.29 adds broadcasts last": {late, "aa", "[[0] [1]]"},
		"broadcasts from two":       {roots, "aa", "the model does not know groups of broadcasts from several roots with NCCL 2.29.7"},
	} {
		got, err := Aggregates(tc.calls, func(i int) string { return tc.classes[i : i+1] })
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if text != tc.want {
			t.Errorf("%s: %s, want %s", name, text, tc.want)
		}
	}
}

// All elements of a group's calls are on channels that the communicator has, from the first one on without a gap, and no
// channel but the last one has more traffic than its share and a cell.
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
			d := decide(nccl.Collective(rapid.IntRange(int(nccl.AllReduce), int(nccl.Reduce)).Draw(t, "collective")), Ring,
				Protocol(rapid.IntRange(int(LL), int(Simple)).Draw(t, "protocol")), 4, channels, 0)
			d.Version, d.ElemSize = version, rapid.SampledFrom([]uint64{1, 2, 4, 8}).Draw(t, "element")
			d.Count = rapid.Uint64Range(1, 1<<24).Draw(t, "count") >> rapid.IntRange(0, 20).Draw(t, "shift") / d.ElemSize
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
				t.Fatalf("call %d is on %d channels from %d on; the one before ended before %d, and there are %d", i, len(counts), first, next, channels)
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

// Calls on which NCCL decides at once may use as many channels each as one call with all of their bytes.
func TestGroupLimits(t *testing.T) {
	var list []*call
	for range 2 {
		d := decide(nccl.AllReduce, Ring, Simple, 4, 4, 40<<10) // a channel needs 32 KiB of a call
		list = append(list, newCall(&d, inOrder(rdma())))
	}
	for name, lists := range map[string][][]*call{"0 1, 2 3": {list}, "0, 1": {list[:1], list[1:]}} {
		all, err := groupShares(lists)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, shares := range all {
			var channels []string
			for _, s := range shares {
				channels = append(channels, fmt.Sprint(s.channel))
			}
			got = append(got, strings.Join(channels, " "))
		}
		if text := strings.Join(got, ", "); text != name {
			t.Errorf("channels %s, want %s", text, name)
		}
	}
}

// A group of one call is the call. A group takes less time than its calls one after another, because they share the
// channels, and no less than the bytes of all of them do.
func TestJobOfAGroup(t *testing.T) {
	f := inOrder(rdma())
	calls := grouped(22203, 4<<20, 3<<20, 1<<20)
	job := func(of ...Call) float64 {
		j := &Job{Comms: []JobComm{{Ranks: all(4), Calls: of}}}
		for range 4 {
			var items []Item
			for i := range of {
				items = append(items, Item{Kind: Collective, Call: i})
			}
			j.Ranks = append(j.Ranks, items)
		}
		return float64(simulateJob(t, j, f).End())
	}
	if alone, one := job(Alone(calls[0])), job(Call{{calls[0]}}); alone != one {
		t.Errorf("a call alone takes %v ns, in a group %v", alone, one)
	}
	bound := 0.0
	for _, d := range calls {
		d.Iterations = 1
		e, err := Simulate(context.Background(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		bound += e.Bound
	}
	group := job(Call{{calls[1], calls[0]}, {calls[2]}})
	if after := job(Alone(calls[0]), Alone(calls[1]), Alone(calls[2])); group >= after || group < bound {
		t.Errorf("the group takes %v ns, its calls one after another %v, their bytes %v", group, after, bound)
	}
}

// Messages of a group come after its collectives on each channel.
func TestJobOfAMixedGroup(t *testing.T) {
	f := inOrder(rdma())
	d := grouped(22203, 4<<20)[0]
	p2p := d
	p2p.P2PChannels, p2p.P2PChannelsPerPeer = 2, 2
	const bytes = 1 << 20
	job := func(kinds ...Item) float64 {
		j := &Job{Comms: []JobComm{{Ranks: all(4), Calls: []Call{Alone(d)}, P2P: p2p}}}
		for r := range 4 {
			items := append([]Item(nil), kinds...)
			for i := range items {
				if items[i].Sends != nil {
					items[i].Sends, items[i].Recvs = map[int]uint64{(r + 1) % 4: bytes}, map[int]uint64{(r + 3) % 4: bytes}
				}
			}
			j.Ranks = append(j.Ranks, items)
		}
		return float64(simulateJob(t, j, f).End())
	}
	some := map[int]uint64{}
	together := job(Item{Kind: Collective, Sends: some, Recvs: some})
	call, message := job(Item{Kind: Collective}), job(Item{Kind: Exchange, Sends: some, Recvs: some})
	if together <= call || together > call+message {
		t.Errorf("together %v ns, the call alone %v, the messages alone %v", together, call, message)
	}
}

// What the model does not know of a group is refused.
func TestGroupRefusals(t *testing.T) {
	other := grouped(22907, 1<<20, 2<<20)
	other[0].UsedChannels, other[0].FirstChannel = 1, 1
	many := grouped(22203, make([]uint64, 300)...)
	for i := range many {
		many[i].Count = 1 << 10
	}
	for want, of := range map[string]Call{
		"in a group NCCL used 1 channels from 1 on for all_reduce of 262144, its rules give": {other},
		"the model does not know groups with so many collectives":                            {many},
	} {
		j := &Job{Comms: []JobComm{{Ranks: all(4), Calls: []Call{of}}}, Ranks: [][]Item{{{Kind: Collective}}}}
		f := inOrder(rdma())
		j.Comms[0].Path = f.Path
		if _, err := SimulateJob(context.Background(), j, f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The bins of NCCL's u32fpEncode with 2 bits of fraction.
func TestSizeBin(t *testing.T) {
	got := []int{}
	for _, kib := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16, 1 << 20, 1 << 30} {
		got = append(got, sizeBin(kib<<10))
	}
	if d := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 11, 12, 76, 76}, got); d != "" {
		t.Error(d)
	}
}
