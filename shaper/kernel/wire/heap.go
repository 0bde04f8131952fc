// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/ddlemu/ddlemu/shaper/engine/link"

// heap orders packets by time, and packets of the same time by when they were added. The zero value is empty. It
// reuses its memory.
type heap struct {
	items []item
	seq   uint64
}

type item struct {
	at  int64
	seq uint64
	p   *packet
}

func (a item) before(b item) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// next returns the time of the earliest packet, or [link.Never] if the heap is empty.
func (h *heap) next() int64 {
	if len(h.items) == 0 {
		return link.Never
	}
	return h.items[0].at
}

// head returns the earliest packet, or nil if the heap is empty.
func (h *heap) head() *packet {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0].p
}

func (h *heap) push(at int64, p *packet) {
	h.seq++
	h.items = append(h.items, item{at, h.seq, p})
	i := len(h.items) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !h.items[i].before(h.items[up]) {
			break
		}
		h.items[i], h.items[up] = h.items[up], h.items[i]
		i = up
	}
}

// pop removes and returns the earliest packet. The heap must not be empty.
func (h *heap) pop() *packet {
	p, last := h.items[0].p, len(h.items)-1
	h.items[0] = h.items[last]
	h.items[last].p = nil
	h.items = h.items[:last]
	i := 0
	for {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < last && h.items[c].before(h.items[least]) {
				least = c
			}
		}
		if least == i {
			return p
		}
		h.items[i], h.items[least] = h.items[least], h.items[i]
		i = least
	}
}
