// SPDX-License-Identifier: Apache-2.0

package plan

// packer gives the channels of a kernel to its collectives, one after another, as scheduleCollTasksToPlan does. Each
// channel gets the same traffic, and a collective begins on the channel on which the one before it has ended.
type packer struct {
	rules
	channels   int    // of the communicator
	perChannel uint64 // traffic in bytes
	channel    int    // on which the next collective begins
	used       uint64 // traffic that this channel has
}

// traffic is what a collective counts for, in bytes.
func (r rules) traffic(s shape, proto Protocol) uint64 {
	t := s.count * s.elem * r.perByte(s, proto)
	if r.coarse {
		return max(t, r.minTraffic)
	}
	return t
}

func (r rules) perByte(s shape, proto Protocol) uint64 {
	if r.llFourfold && proto == LL {
		return 4 * s.perByte
	}
	return s.perByte
}

// newPacker divides the traffic of a kernel among at most so many of the communicator's channels.
func newPacker(r rules, traffic uint64, maxChannels, channels int) *packer {
	p := &packer{rules: r, channels: channels, perChannel: traffic / uint64(maxChannels)}
	if r.rounded {
		p.perChannel = divUp(p.perChannel, 16) * 16
	} else {
		p.perChannel = max(p.perChannel, r.minTraffic)
	}
	return p
}

// place returns the first channel of the next collective, and its elements on each. The first and the last channel may
// have fewer or more than those between.
func (p *packer) place(s shape, proto Protocol) (first int, counts []uint64) {
	perByte, cell := p.perByte(s, proto), uint64(16)
	if p.coarse {
		cell = divUp(divUp(p.minTraffic, perByte), 16) * 16
	}
	perCell := cell * perByte
	cells := divUp(s.count*s.elem, cell)
	mid := min(cells, divUp(p.perChannel, perCell))
	lo := cells
	if p.channel+1 < p.channels {
		lo = (p.perChannel - p.used) / perCell
		if p.coarse {
			lo = divUp(p.perChannel-p.used, perCell)
		}
		lo = min(lo, cells)
	}
	parts := p.assign(cells, lo, mid)
	first = p.channel
	for _, n := range parts {
		counts = append(counts, n*(cell/s.elem))
	}
	last := len(counts) - 1
	counts[last] -= cells*(cell/s.elem) - s.count
	traffic := parts[last] * perCell
	if !p.coarse {
		traffic = counts[last] * s.elem * perByte
	}
	p.advance(last, traffic)
	return first, counts
}

// assign gives lo cells to the present channel, mid to each of the next, and the rest to the last one. If lo is 0, it
// goes on to the next channel.
func (p *packer) assign(cells, lo, mid uint64) []uint64 {
	between := int((cells - lo) / mid)
	hi := (cells - lo) % mid
	used := between
	if lo != 0 {
		used++
	}
	if hi != 0 {
		used++
	}
	if p.channel+used > p.channels {
		between = p.channels - p.channel - 2
		mid = (cells - lo) / uint64(between+1)
		hi = mid + (cells-lo)%uint64(between+1)
	}
	if hi == 0 && between != 0 {
		hi = mid
		between--
	}
	if lo == 0 {
		p.channel++
		if between == 0 {
			lo, hi = hi, 0
		} else {
			lo = mid
			between--
		}
	}
	parts := []uint64{lo}
	for range between {
		parts = append(parts, mid)
	}
	if hi != 0 {
		parts = append(parts, hi)
	}
	return parts
}

// advance moves on by so many channels, the last of which has got so much traffic. A channel that is full is left, but
// for the last one. NCCL adds to the traffic of a channel that assign has left, too.
func (p *packer) advance(channels int, traffic uint64) {
	if channels > 0 {
		p.channel += channels
		p.used = traffic
	} else {
		p.used += traffic
	}
	if p.used >= p.perChannel && p.channel+1 != p.channels {
		p.channel++
		p.used = 0
	}
}
