// SPDX-License-Identifier: Apache-2.0

// Package meet is how the two ends of a connection find each other, for every
// datapath: the handle that listen gives to the peer, what has come to a listen, and
// the connects that are under way.
package meet

import (
	"encoding/binary"
	"errors"
)

// HandleSize is NCCL_NET_HANDLE_MAXSIZE.
const HandleSize = 128

// A handle is Magic and the fields of Handle, then what a datapath adds, up to the
// attempt field. That one belongs to the caller of connect: NCCL hands in the same
// memory on each retry, and it finds the attempt under way again.
const (
	Added         = 40 // offset of what a datapath adds
	AttemptOffset = 64
)

// Handle is what listen gives to the peer, by way of NCCL's bootstrap.
type Handle struct {
	Fabric uint64
	Nonce  uint64 // tells this listen from every other
	Slot   uint32 // participant
	Listen uint32
	NIC    uint32 // NIC number in the fabric
	Rank   int32
}

// Put writes the handle of a datapath, which magic tells from those of others.
func (h *Handle) Put(b *[HandleSize]byte, magic uint64) {
	*b = [HandleSize]byte{}
	le := binary.LittleEndian
	le.PutUint64(b[0:], magic)
	le.PutUint64(b[8:], h.Fabric)
	le.PutUint64(b[16:], h.Nonce)
	le.PutUint32(b[24:], h.Slot)
	le.PutUint32(b[28:], h.Listen)
	le.PutUint32(b[32:], h.NIC)
	le.PutUint32(b[36:], uint32(h.Rank))
}

// ParseHandle reads a handle, which may be anybody's bytes. It fails for a handle of
// another datapath or another fabric.
func ParseHandle(b *[HandleSize]byte, magic, fabric uint64) (Handle, error) {
	le := binary.LittleEndian
	if le.Uint64(b[0:]) != magic {
		return Handle{}, errors.New("the peer's handle is not ddlemu's, or is for another datapath: do all ranks use the same plugin and fabric?")
	}
	h := Handle{
		Fabric: le.Uint64(b[8:]), Nonce: le.Uint64(b[16:]), Slot: le.Uint32(b[24:]), Listen: le.Uint32(b[28:]),
		NIC: le.Uint32(b[32:]), Rank: int32(le.Uint32(b[36:])),
	}
	if h.Fabric != fabric {
		return Handle{}, errors.New("the peer is on another fabric: give all ranks the same DDLEMU_DIR and DDLEMU_FABRIC, or, where the job makes its own fabric, the same DDLEMU_JOB")
	}
	return h, nil
}
