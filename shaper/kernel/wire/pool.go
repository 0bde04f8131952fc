// SPDX-License-Identifier: Apache-2.0

package wire

// Sizes of buffers in bytes. GSO packets need large buffers. Small packets may be many, so they have small ones.
const (
	smallBuffer = 2 << 10
	largeBuffer = vnetLen + etherLen + 64<<10
)

// maxInUse limits the memory of all packets in flight, in bytes. It is far above what TCP keeps in flight. A lossless
// fabric would delay senders by back-pressure. TCP cannot be delayed like that, so its packets wait here.
const maxInUse = 512 << 20

// packet is a packet in flight. Times are CLOCK_MONOTONIC in ns.
type packet struct {
	buf      []byte // virtio_net_hdr and frame
	headers  headers
	src, dst int // NICs; dst may be broadcast
	class    int // flow class
	arrived  int64
	// Set by the model.
	dur    int64 // serialization time at the previous hop
	ready  int64 // when the first byte is at the receive port
	early  bool  // it overtakes packets of its link
	finish int64 // when the last byte is there, if the port adds no time
	due    int64
}

// pool reuses packets and their buffers.
type pool struct {
	small, large []*packet // unused
	inUse        int       // bytes of the buffers in use
}

// get returns a packet with a buffer of size bytes, or nil if the memory in use is at its limit. The other fields are
// undefined.
func (o *pool) get(size int) *packet {
	free, capacity := &o.small, smallBuffer
	if size > smallBuffer {
		free, capacity = &o.large, largeBuffer
	}
	if o.inUse+capacity > maxInUse || size > capacity {
		return nil
	}
	o.inUse += capacity
	n := len(*free) - 1
	if n < 0 {
		return &packet{buf: make([]byte, size, capacity)}
	}
	p := (*free)[n]
	*free = (*free)[:n]
	p.buf = p.buf[:size]
	return p
}

// put returns a packet to the pool.
func (o *pool) put(p *packet) {
	o.inUse -= cap(p.buf)
	if cap(p.buf) == smallBuffer {
		o.small = append(o.small, p)
	} else {
		o.large = append(o.large, p)
	}
}
