// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"encoding/binary"
	"fmt"
)

// HandleSize is NCCL_NET_HANDLE_MAXSIZE.
const HandleSize = 128

const handleMagic = 0x316c646868656c64 // "dlehhdl1"

// handle is what listen gives to the peer, by way of NCCL's bootstrap.
type handle struct {
	fabric uint64
	nonce  uint64 // tells this listen from every other
	slot   uint32 // participant
	listen uint32
	nic    uint32 // NIC number in the fabric
	rank   int32
}

// The attempt field belongs to the caller of connect: NCCL hands in the same
// memory on each retry, and this finds the attempt under way again.
const attemptOffset = 64

func (h *handle) put(b *[HandleSize]byte) {
	*b = [HandleSize]byte{}
	le := binary.LittleEndian
	le.PutUint64(b[0:], handleMagic)
	le.PutUint64(b[8:], h.fabric)
	le.PutUint64(b[16:], h.nonce)
	le.PutUint32(b[24:], h.slot)
	le.PutUint32(b[28:], h.listen)
	le.PutUint32(b[32:], h.nic)
	le.PutUint32(b[36:], uint32(h.rank))
}

// parseHandle reads a handle, which may be anybody's bytes.
func parseHandle(b *[HandleSize]byte, fabric uint64) (handle, error) {
	le := binary.LittleEndian
	if le.Uint64(b[0:]) != handleMagic {
		return handle{}, fmt.Errorf("the peer's handle is not ddlemu's: do all ranks use the same plugin?")
	}
	h := handle{
		fabric: le.Uint64(b[8:]), nonce: le.Uint64(b[16:]), slot: le.Uint32(b[24:]), listen: le.Uint32(b[28:]),
		nic: le.Uint32(b[32:]), rank: int32(le.Uint32(b[36:])),
	}
	if h.fabric != fabric {
		return handle{}, fmt.Errorf("the peer is on another fabric: give all ranks the same DDLEMU_DIR and DDLEMU_FABRIC, or, where the job makes its own fabric, the same DDLEMU_JOB")
	}
	return h, nil
}
