// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// HandleSize is NCCL_NET_HANDLE_MAXSIZE.
const HandleSize = 128

// AttemptOffset is where Connect keeps the number of its attempt in the handle: NCCL
// passes the same memory on each retry.
const AttemptOffset = 64

// Handle is what Listen gives to the peer, through NCCL's bootstrap.
type Handle struct {
	Fabric uint64
	Nonce  uint64 // differs for every listener
	Slot   uint32 // the listening participant's
	Listen uint32 // the listener's number in its process
	NIC    uint32 // number in the fabric
	Rank   int32
	// Listened is how many connections the rank had listened for before.
	Listened uint32
	Addr     netip.AddrPort // where the listening node accepts TCP streams; unspecified for shm
}

// put writes the handle. The magic number tells the handles of the datapaths apart.
func (h *Handle) put(b *[HandleSize]byte, magic uint64) {
	*b = [HandleSize]byte{}
	le := binary.LittleEndian
	le.PutUint64(b[0:], magic)
	le.PutUint64(b[8:], h.Fabric)
	le.PutUint64(b[16:], h.Nonce)
	le.PutUint32(b[24:], h.Slot)
	le.PutUint32(b[28:], h.Listen)
	le.PutUint32(b[32:], h.NIC)
	le.PutUint32(b[36:], uint32(h.Rank))
	addr := h.Addr.Addr().As16()
	copy(b[40:], addr[:])
	le.PutUint16(b[56:], h.Addr.Port())
	le.PutUint32(b[60:], h.Listened)
}

// ParseHandle reads a handle, which may be arbitrary bytes. It fails for the handle of
// another datapath or another fabric.
func ParseHandle(b *[HandleSize]byte, magic, fabric uint64) (Handle, error) {
	le := binary.LittleEndian
	if le.Uint64(b[0:]) != magic {
		return Handle{}, errors.New(
			"the peer's handle is not ddlemu's, or is for another datapath: do all ranks use the same plugin and " +
				"fabric?")
	}
	h := Handle{
		Fabric: le.Uint64(b[8:]), Nonce: le.Uint64(b[16:]), Slot: le.Uint32(b[24:]), Listen: le.Uint32(b[28:]),
		NIC: le.Uint32(b[32:]), Rank: int32(le.Uint32(b[36:])),
		Addr:     netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[40:])).Unmap(), le.Uint16(b[56:])),
		Listened: le.Uint32(b[60:]),
	}
	if h.Fabric != fabric {
		return Handle{}, errors.New(
			"the peer is on another fabric: give all ranks the same DDLEMU_DIR and DDLEMU_FABRIC, or, where the " +
				"job makes its own fabric, the same DDLEMU_JOB")
	}
	return h, nil
}
