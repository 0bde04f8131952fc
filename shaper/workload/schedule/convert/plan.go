// SPDX-License-Identifier: Apache-2.0

package convert

import "slices"

// portPlan is an MSCCL++ execution plan.
type portPlan struct {
	Name       string    `json:"name"`
	Collective string    `json:"collective"`
	Protocol   string    `json:"protocol"`
	InPlace    bool      `json:"inplace"`
	GPUs       []planGPU `json:"gpus"`
	Min        float64   `json:"min_message_size"`
	Max        float64   `json:"max_message_size"`
}

type planGPU struct {
	ID       int           `json:"id"`
	Input    int           `json:"input_chunks"`
	Output   int           `json:"output_chunks"`
	Scratch  int           `json:"scratch_chunks"`
	Channels []planChannel `json:"channels"`
	Remote   []struct {
		Rank int    `json:"rank"`
		Type string `json:"type"`
	} `json:"remote_buffers"`
	Blocks []planBlock `json:"threadblocks"`
}

type planChannel struct {
	Type      string `json:"channel_type"`
	Older     string `json:"type"`
	Connected []int  `json:"connected_to"`
	IDs       []int  `json:"channel_ids"`
}

type planBlock struct {
	Ops      []planOp      `json:"ops"`
	Channels []planChannel `json:"channels"`
	Refs     []struct {
		Type string `json:"access_channel_type"`
		IDs  []int  `json:"remote_buffer_ids"`
	} `json:"remote_buffer_refs"`
}

type planOp struct {
	Name     string      `json:"name"`
	Channel  string      `json:"channel_type"`
	Channels []int       `json:"channel_ids"`
	Src      []planChunk `json:"src_buff"`
	Dst      []planChunk `json:"dst_buff"`
}

type planChunk struct {
	Type   string `json:"type"`
	Buffer int    `json:"buffer_id"`
	Index  int    `json:"index"`
	Size   int    `json:"size"`
}

// portOps are the operations that are read, in plans of which all channels are ports: a put and the signal behind it
// are a message, which the receiver stores where it waits for the signal.
var portOps = []string{"copy", "flush", "nop", "put", "pws", "pwsf", "signal", "wait"}

// port is the channel type that is read.
const port = "port"

// onlyPorts says whether all channels are ports and all operations in portOps.
func (p *portPlan) onlyPorts() bool {
	for _, g := range p.GPUs {
		for _, c := range g.Channels {
			if c.Type+c.Older != port {
				return false
			}
		}
		for _, b := range g.Blocks {
			for _, op := range b.Ops {
				if !slices.Contains(portOps, op.Name) {
					return false
				}
			}
		}
	}
	return true
}
