// SPDX-License-Identifier: Apache-2.0

package drive

// #include "exchange.h"
import "C"

import (
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// setSize notes the size of the message that is written next.
func setSize(x *C.struct_exchange, bytes uint64) { x.size[x.written%x.slots] = C.uint64_t(bytes) }

// element is element i of a rank's input.
func element(rank int, i uint64) int32 {
	x := uint32(i)*2654435761 + uint32(i>>32)*97 + uint32(rank)*0x9e3779b9
	x ^= x >> 15
	x *= 0x85ebca6b
	return int32(x ^ x>>13)
}

// fill writes the inputs, and into the rest of the memories what no result has.
func (s *stage) fill() {
	per := s.Cut.Chunk / 4
	for gpu, memory := range s.memory {
		l := &s.layouts[gpu]
		for i := range memory {
			memory[i] = -0x5a5a5a5a
		}
		has := s.Schedule.InputChunks(gpu, s.Root, s.InPlace, s.shape)
		input := memory[uint64(l.Base[schedule.Input])*per:][:uint64(has)*per]
		for i := range input {
			input[i] = element(gpu, uint64(i))
		}
		for _, c := range s.Schedule.GPUs[gpu].Copies {
			from, _ := l.At(schedule.Ref{Buffer: schedule.Input, Offset: c.From}, 1)
			to, _ := l.At(schedule.Ref{Buffer: schedule.Output, Offset: c.To}, 1)
			copy(memory[uint64(to)*per:][:per], memory[uint64(from)*per:][:per])
		}
	}
}

// wrong counts the elements of the outputs that are not what the collective must give.
func (s *stage) wrong() (wrong uint64) {
	per := s.Cut.Chunk / 4
	for gpu, memory := range s.memory {
		output := memory[uint64(s.layouts[gpu].Base[schedule.Output])*per:]
		for _, x := range s.Schedule.Result(gpu, s.Root, s.shape) {
			first := uint64(x.First) * per
			for i, got := range output[uint64(x.At)*per:][:uint64(x.Chunks)*per] {
				want := int32(0)
				if x.Sum {
					want = s.sum(first + uint64(i))
				} else {
					want = element(x.Source, first+uint64(i))
				}
				if got != want {
					wrong++
				}
			}
		}
	}
	return wrong
}

func (s *stage) sum(i uint64) (sum int32) {
	for rank := range s.memory {
		sum += element(rank, i)
	}
	return sum
}

// memory is the memory in bytes that a performance needs for the buffers of the GPUs and of the connections.
func memory(s *schedule.Schedule, c *schedule.Cut, inPlace bool, root int) (bytes uint64) {
	sh, err := s.Shape()
	if err != nil {
		return 0
	}
	const ring = 8 << 20 // of a connection, at most
	for gpu := range s.GPUs {
		l := s.Layout(gpu, inPlace, root, sh)
		bytes += uint64(l.Total) * c.Chunk
		for i := range s.GPUs[gpu].Blocks {
			if largest := c.Largest(&s.GPUs[gpu].Blocks[i]); largest > 0 {
				buffers := uint64(c.Slots) * largest
				bytes += 2*buffers + min(buffers, ring)
			}
		}
	}
	return bytes
}
