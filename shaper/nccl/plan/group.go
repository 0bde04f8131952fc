// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Group is a collective of a communicator, or the collectives of a group, which NCCL runs in one kernel: in the order
// of [Aggregates], with the same algorithm and protocol within each of its lists.
type Group [][]Decision

// Alone is a collective that is in no group, or the only one of its communicator there.
func Alone(d Decision) Group { return Group{{d}} }

// Aggregates returns the numbers of the collectives of a group on one communicator, in the order in which NCCL runs
// them, as lists on which it decides at once (ncclPrepareTasks). Of the decisions, only what was called is used.
// class(i) is the same for calls of a function whose types and operators NCCL's kernels treat alike.
func Aggregates(calls []Decision, class func(i int) string) ([][]int, error) {
	order, err := bySize(calls)
	if err != nil {
		return nil, err
	}
	var kinds []string
	byKind := map[string][]int{}
	for _, i := range order {
		kind := fmt.Sprint(calls[i].Coll, " ", class(i))
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], i)
	}
	var lists [][]int
	for _, kind := range kinds {
		var list []int
		for _, i := range slices.Backward(byKind[kind]) {
			if len(list) > 0 && traffic(&calls[i]) >= 4*traffic(&calls[list[0]]) {
				lists, list = append(lists, list), nil
			}
			list = append(list, i)
		}
		lists = append(lists, list)
	}
	return lists, nil
}

// bySize returns the numbers of collectives as ncclTaskCollSorter has them: those with most traffic first, in bins of a
// quarter of a power of two. In a bin, the last one comes first.
func bySize(calls []Decision) ([]int, error) {
	var order, broadcasts []int
	for i := range calls {
		d := &calls[i]
		if _, err := d.checkedShape(); err != nil {
			return nil, err
		}
		r, err := rulesOf(d.Version)
		if err != nil {
			return nil, err
		}
		if d.Coll == nccl.Broadcast && r.broadcastTasks {
			if len(broadcasts) > 0 && calls[broadcasts[0]].Root != d.Root {
				return nil, fmt.Errorf("the model does not know groups of broadcasts from several roots with NCCL %s",
					nccl.VersionText(d.Version))
			}
			broadcasts = append(broadcasts, i)
			continue
		}
		order = append(order, i)
	}
	order = append(order, broadcasts...)
	slices.Reverse(order)
	slices.SortStableFunc(order,
		func(i, j int) int { return sizeBin(traffic(&calls[j])) - sizeBin(traffic(&calls[i])) })
	return order, nil
}

func traffic(d *Decision) uint64 {
	s := d.shape()
	return s.count * s.elem * s.perByte
}

// sizeBin is the bin of so many bytes: four for each power of two from 1 KiB to 1 GiB.
func sizeBin(bytes uint64) int {
	const unit, most, fraction = 10, 30, 2
	x := min(bytes, 1<<most) >> unit
	log := bits.Len64(x|1) - 1
	if log < fraction {
		return int(x)
	}
	return (log-fraction+1)<<fraction | int(x>>(log-fraction)&(1<<fraction-1))
}

// maxBatches is the number of batches of work that fit into the arguments of any kernel: of 4 KiB, with 16 bytes each.
// A group with more may be divided into several kernels.
const maxBatches = 240

// GroupShares are the shares of the collectives of a group on one communicator, in their order.
func GroupShares(lists [][]*Call) ([][]Share, error) {
	first := lists[0][0]
	r := first.rules
	sum, channels := uint64(0), 0
	for _, list := range lists {
		bytes := uint64(0)
		for _, c := range list {
			s, err := c.checkedShape()
			if err != nil {
				return nil, err
			}
			bytes += s.count * s.global
			sum += r.traffic(s, c.Proto)
		}
		channels += len(list) * list[0].maxChannels(bytes)
	}
	p := newPacker(r, sum, min(channels, first.Channels), first.Channels)
	var all [][]Share
	batches := 0
	for _, list := range lists {
		for _, c := range list {
			channel, counts := p.place(c.shape(), c.Proto)
			if c.UsedChannels != 0 && (c.UsedChannels != len(counts) || c.FirstChannel != channel) {
				return nil, fmt.Errorf(
					"in a group NCCL used %d channels from %d on for %v of %d, its rules give %d from %d on",
					c.UsedChannels, c.FirstChannel, c.Coll, c.Count, len(counts), channel)
			}
			shares, err := c.sharesOf(channel, counts)
			if err != nil {
				return nil, err
			}
			if batches += len(shares); batches > maxBatches {
				return nil, fmt.Errorf(
					"the model does not know groups with so many collectives: NCCL may run them in several kernels")
			}
			all = append(all, shares)
		}
	}
	return all, nil
}
