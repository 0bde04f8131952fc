// SPDX-License-Identifier: Apache-2.0

// Package mscclpp reads execution plans of MSCCL++ and makes schedules of them.
//
// The thread blocks of a plan store into and load from the memories of other GPUs. A schedule has only messages. So a
// thread block of the plan becomes one block for its local operations and one for each GPU that it reaches; that GPU
// has a block, the agent, for each of these. A store (put, or packets) is a message that the agent stores as soon as
// it is there. A load (get, read-reduce) is a request, which the agent answers with the bytes. A signal is a message
// without data behind the stores. Blocks of one GPU wait for each other where a thread block waits for a signal, for
// packets, at a barrier or for a semaphore.
//
// The order of operations is the order of the executor of MSCCL++ 0.9.0 (src/core/executor/execution_plan.cc and
// src/core/include/execution_kernel.hpp): the operations of a thread block are done one after another, each on all of
// its bytes.
package mscclpp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/msccl"
)

// plan is the file.
type plan struct {
	Name       string  `json:"name"`
	Collective string  `json:"collective"`
	Protocol   string  `json:"protocol"`
	InPlace    bool    `json:"inplace"`
	Reuse      bool    `json:"reuse_resources"`
	Double     bool    `json:"use_double_scratch_buffer"`
	Alignment  *int    `json:"buffer_alignment"`
	Min        float64 `json:"min_message_size"`
	Max        float64 `json:"max_message_size"`
	GPUs       []gpu   `json:"gpus"`
}

type gpu struct {
	ID         int              `json:"id"`
	Input      int              `json:"input_chunks"`
	Output     int              `json:"output_chunks"`
	Scratch    int              `json:"scratch_chunks"`
	Older      *json.RawMessage `json:"inputChunks"`
	Channels   []channelList    `json:"channels"`
	Remote     []remoteBuffer   `json:"remote_buffers"`
	Semaphores []struct {
		Init int `json:"init_value"`
	} `json:"semaphores"`
	Blocks []threadBlock `json:"threadblocks"`
}

type channelList struct {
	Type      string `json:"channel_type"`
	OlderType string `json:"type"`         // the same, in older files
	Connected []int  `json:"connected_to"` // of a GPU's memory and port channels
	IDs       []int  `json:"channel_ids"`  // of a thread block's channels
	Buffer    string `json:"buffer_type"`  // of switch channels
	Older     string `json:"buff"`         // the same, in files of before 0.9
	Groups    []struct {
		Ranks []int `json:"ranks"`
	} `json:"rank_groups"`
}

type remoteBuffer struct {
	Rank int    `json:"rank"`
	Type string `json:"type"`
}

type threadBlock struct {
	ID       int           `json:"id"`
	Ops      []op          `json:"ops"`
	Channels []channelList `json:"channels"`
	Refs     []struct {
		Type string `json:"access_channel_type"`
		IDs  []int  `json:"remote_buffer_ids"`
	} `json:"remote_buffer_refs"`
}

type op struct {
	Name       string  `json:"name"`
	Channel    string  `json:"channel_type"`
	Channels   []int   `json:"channel_ids"`
	Src        []chunk `json:"src_buff"`
	Dst        []chunk `json:"dst_buff"`
	Reduce     string  `json:"reduce_op"`
	Semaphores []int   `json:"semaphore_ids"`
	Barrier    int     `json:"barrier_id"`
	Blocks     int     `json:"num_threadblocks"`
	Group      *struct {
		Block int `json:"tb_id"`
		Size  int `json:"tbg_size"`
	} `json:"tbg_info"`
	Iterations *struct {
		Unit   int64 `json:"unit_size"`
		Chunks int   `json:"num_chunks"`
	} `json:"iter_context"`
	Ops []op `json:"ops"` // of a pipeline
}

type chunk struct {
	Type   string `json:"type"`
	Buffer *int   `json:"buffer_id"`
	Switch *int   `json:"switch_channel_id"`
	Index  int    `json:"index"`
	Size   int    `json:"size"`
}

// The types of channels.
const (
	memoryChannel = "memory"
	portChannel   = "port"
	switchChannel = "switch"
)

// Limits of MSCCL++'s executor (execution_common.hpp).
const (
	mostOperations = 64      // of a thread block
	mostChannels   = 16      // of a thread block
	reusedScratch  = 1 << 26 // bytes of the scratch buffer with reuse_resources
)

const (
	mostGroup = 1024 // thread blocks of a group, more than any GPU holds
	mostNamed = 1024 // channels, sources or destinations of an operation, more than a thread block has
)

// parse reads the file. Older names of its keys get the newer ones.
func parse(data []byte) (*plan, error) {
	p := &plan{}
	err := json.Unmarshal(data, p)
	for i := range p.GPUs {
		for k := range p.GPUs[i].Channels {
			c := &p.GPUs[i].Channels[k]
			c.Type, c.Buffer = cmp.Or(c.Type, c.OlderType), cmp.Or(c.Buffer, c.Older)
		}
	}
	return p, err
}

// check refuses a file that is no plan, or that is not supported.
func (p *plan) check() error {
	if n := len(p.GPUs); n < 1 || n > msccl.MaxGPUs {
		return fmt.Errorf("%d GPUs: must be 1 to %d", n, msccl.MaxGPUs)
	}
	if a := p.alignment(); a < 1 || a > 1<<20 {
		return fmt.Errorf("buffer_alignment %d: must be 1 to %d", a, 1<<20)
	}
	for i := range p.GPUs {
		g := &p.GPUs[i]
		if g.Older != nil {
			return errors.New(
				"the older format of MSCCL++ plans (inputChunks, chunkGroups) is not read: write the plan again " +
					"with MSCCL++ 0.8 or later")
		}
		if err := g.check(i); err != nil {
			return err
		}
		for b := range g.Blocks {
			if g.Blocks[b].ID != b {
				return fmt.Errorf("GPU %d: thread block %d has id %d: they are numbered from 0, in order", i, b,
					g.Blocks[b].ID)
			}
		}
	}
	return nil
}

// check refuses a GPU that is not number i, or whose buffers have too many chunks.
func (g *gpu) check(i int) error {
	if g.ID != i {
		return fmt.Errorf("GPU %d has id %d: they are numbered from 0, in order", i, g.ID)
	}
	if least, most := min(g.Input, g.Output, g.Scratch), max(g.Input, g.Output, g.Scratch); least < 0 ||
		most > msccl.MaxChunks {
		return fmt.Errorf("GPU %d: input_chunks %d, output_chunks %d, scratch_chunks %d: must be 0 to %d", i, g.Input,
			g.Output, g.Scratch, msccl.MaxChunks)
	}
	return nil
}

// setCollective sets the collective of a schedule. One that is not known is custom, with a warning.
func (p *plan) setCollective(s *schedule.Schedule) {
	var err error
	if s.Coll, err = schedule.ParseCollective(p.Collective); err != nil {
		s.Coll = schedule.Custom
		s.Warnings = append(s.Warnings, fmt.Sprintf("collective %q is taken for custom, so its result is not checked",
			p.Collective))
	}
}

func (p *plan) alignment() int {
	if p.Alignment == nil {
		return 16
	}
	return *p.Alignment
}

// chunks is the number of chunks of the larger buffer.
func (p *plan) chunks() (n int) {
	for i := range p.GPUs {
		n = max(n, p.GPUs[i].Input, p.GPUs[i].Output)
	}
	return n
}

// scratch is the number of chunks of the largest scratch buffer.
func (p *plan) scratch() (n int) {
	for i := range p.GPUs {
		n = max(n, p.GPUs[i].Scratch)
	}
	return n
}

// scratchLimit is the largest chunk in bytes of which the scratch buffer has all, 0 if there is no limit. With
// reuse_resources the buffer has a fixed size, and pipelines use it again for the next part of a larger chunk.
func (p *plan) scratchLimit() (bytes uint64) {
	if !p.Reuse {
		return 0
	}
	whole := uint64(reusedScratch)
	if p.Double {
		whole /= 2
	}
	for i := range p.GPUs {
		n := uint64(p.GPUs[i].Scratch)
		if n == 0 {
			continue
		}
		align := uint64(p.alignment())
		per := ((whole+n-1)/n + align - 1) / align * align
		if bytes == 0 || per < bytes {
			bytes = per
		}
	}
	return bytes
}

// messageSize is a size of a message; the largest numbers stand for no limit.
func messageSize(x float64) int64 {
	if x < 0 || x >= math.MaxInt64/2 {
		return 0
	}
	return int64(x)
}

// limits are the limits of the executor that the plan exceeds.
func (p *plan) limits() (out []string) {
	for i := range p.GPUs {
		for b := range p.GPUs[i].Blocks {
			tb := &p.GPUs[i].Blocks[b]
			ops := len(tb.Ops)
			for k := range tb.Ops {
				ops += len(tb.Ops[k].Ops)
			}
			if ops > mostOperations {
				out = append(out,
					fmt.Sprintf("GPU %d thread block %d has %d operations: MSCCL++'s executor takes at most %d", i, b,
						ops, mostOperations))
			}
			channels := map[string]int{}
			for _, c := range tb.Channels {
				channels[c.Type] += len(c.IDs)
			}
			for _, t := range []string{memoryChannel, portChannel, switchChannel} {
				if channels[t] > mostChannels {
					out = append(out,
						fmt.Sprintf("GPU %d thread block %d has %d %s channels: MSCCL++'s executor takes at most %d", i,
							b, channels[t], t, mostChannels))
				}
			}
		}
	}
	if len(out) > 4 {
		out = append(out[:4], fmt.Sprintf("and %d more thread blocks beyond the limits of MSCCL++'s executor",
			len(out)-4))
	}
	return out
}
