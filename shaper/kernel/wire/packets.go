// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/internal/queue"
)

// packets orders packets by time, and packets of the same time by when they were added.
type packets struct {
	*queue.Queue[item]
	seq uint64
}

type item struct {
	at  int64
	seq uint64
	p   *packet
}

func newPackets() packets {
	return packets{Queue: queue.New(func(a, b item) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq })}
}

// next returns the time of the earliest packet, or [link.Never] if there is none.
func (q *packets) next() int64 {
	if q.Len() == 0 {
		return link.Never
	}
	return q.First().at
}

// head returns the earliest packet, or nil if there is none.
func (q *packets) head() *packet {
	if q.Len() == 0 {
		return nil
	}
	return q.First().p
}

func (q *packets) push(at int64, p *packet) {
	q.seq++
	q.Push(item{at, q.seq, p})
}

// pop removes and returns the earliest packet. There must be one.
func (q *packets) pop() *packet { return q.Pop().p }
