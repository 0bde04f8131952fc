// SPDX-License-Identifier: Apache-2.0

package plan

// NCCL's constants, the same in all supported versions. What differs between versions is in versions.go. A test
// compares the constants of the software CUDA's executor (cuda/soft/exec) with these.
const (
	Steps      = 8         // NCCL_STEPS: slots in a connection's buffer
	ChunkSteps = Steps / 2 // slots of a chunk of a ring that goes around, with Simple; elsewhere a chunk has one
	SliceSteps = Steps / 4 // slots of a slice of such a chunk
	// SharedSteps is the number of slots that the sends of one channel share, and the receives (NCCL_SHARED_STEPS).
	SharedSteps = 16
	MaxRequests = 32 // NCCL_NET_MAX_REQUESTS: messages that one end of a connection may have open
	MaxChannels = 64 // MAXCHANNELS: of a communicator

	// Default sizes of a connection's buffer, in bytes.
	DefaultBuffSize      = 4 << 20
	DefaultLLBuffSize    = 512 << 10
	DefaultLL128BuffSize = 4915200

	LLLine       = 16 // bytes of one LL line
	LLData       = 8  // of them data
	ll128Line    = 16 // 8-byte words of one LL128 line, one of them the flag
	LL128Slice   = 2048
	LL128Payload = LL128Slice / ll128Line * (ll128Line - 1) // 1920 of 2048 bytes
	simpleGrain  = 512

	defaultP2PChunkSize = 128 << 10
	batchWorks          = 8 // sends and receives that a kernel runs concurrently
)
