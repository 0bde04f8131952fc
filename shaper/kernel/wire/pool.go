// SPDX-License-Identifier: Apache-2.0

package wire

// Sizes of buffers. Most packets that are not small are large ones, of which many
// wait for a short time; small ones may wait in large numbers.
const (
	smallBuffer = 2 << 10
	largeBuffer = vnetLen + etherLen + 64<<10
)

// maxHeld bounds the memory of the packets that are under way, in bytes. It is far
// above what TCP keeps in flight, and stands in for the back-pressure of a lossless
// fabric, which TCP does not have.
const maxHeld = 512 << 20

// packet is a packet under way.
type packet struct {
	buf      []byte // virtio_net_hdr and frame
	headers  headers
	src, dst int // NICs; dst is broadcast for all
	class    int
	arrived  int64
	// Set by the model.
	dur    int64 // serialisation time at the previous hop
	ready  int64 // first byte at the receiving port
	finish int64 // last byte there, if the port adds nothing
	due    int64
}

// pool keeps packets for the next ones, so that in the long run none is allocated.
type pool struct {
	small, large []*packet
	held         int // bytes of what is out
}

// get is a packet with a buffer of size bytes; nil if too much is under way. What
// else it holds is of no meaning.
func (o *pool) get(size int) *packet {
	free, room := &o.small, smallBuffer
	if size > smallBuffer {
		free, room = &o.large, largeBuffer
	}
	if o.held+room > maxHeld || size > room {
		return nil
	}
	o.held += room
	n := len(*free) - 1
	if n < 0 {
		return &packet{buf: make([]byte, size, room)}
	}
	p := (*free)[n]
	*free = (*free)[:n]
	p.buf = p.buf[:size]
	return p
}

func (o *pool) put(p *packet) {
	o.held -= cap(p.buf)
	if cap(p.buf) == smallBuffer {
		o.small = append(o.small, p)
	} else {
		o.large = append(o.large, p)
	}
}
