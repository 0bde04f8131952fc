// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/schedule/make"
)

// document has the keys by which the formats are told apart, and those that are used.
type document struct {
	Type       string           `json:"msccl_type"` // SCCL, TACCL
	Name       string           `json:"name"`
	Steps      []scclStep       `json:"steps"`
	Flows      []string         `json:"7-Flows"` // TE-CCL
	GPUs       *json.RawMessage `json:"gpus"`    // MSCCL++
	Collective *json.RawMessage `json:"collective"`
}

type scclStep struct {
	Sends [][]json.RawMessage `json:"sends"`
}

type scclCollective struct {
	Name   string `json:"runtime_name"`
	Nodes  int    `json:"nodes"`
	Chunks []struct {
		Pre  []int `json:"pre"`
		Addr int   `json:"addr"`
	} `json:"chunks"`
}

func readJSON(data []byte, o mk.Options) (*schedule.Schedule, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	switch {
	case d.Type == "algorithm":
		return readSCCL(&d, o)
	case d.Type != "":
		return nil, fmt.Errorf("msccl_type %q: must be algorithm", d.Type)
	case d.Flows != nil:
		return readFlows(&d, o)
	case d.GPUs != nil:
		var p portPlan
		if err := json.Unmarshal(data, &p); err != nil {
			return nil, fmt.Errorf("an MSCCL++ plan: %w", err)
		}
		return readPlan(&p)
	}
	return nil, errors.New("JSON without msccl_type (SCCL, TACCL), 7-Flows (TE-CCL) or gpus (MSCCL++): not a schedule")
}

// readSCCL reads an algorithm of SCCL or TACCL, whose steps send chunks by their address.
func readSCCL(d *document, o mk.Options) (*schedule.Schedule, error) {
	var c scclCollective
	if d.Collective == nil {
		return nil, errors.New("the algorithm has no collective")
	}
	if err := json.Unmarshal(*d.Collective, &c); err != nil {
		return nil, fmt.Errorf("collective: %w", err)
	}
	coll, err := schedule.ParseCollective(c.Name)
	if err != nil {
		return nil, err
	}
	if coll != schedule.AllGather {
		return nil, fmt.Errorf("an algorithm of SCCL or TACCL for %s: only those for allgather are read", coll)
	}
	where := map[int]mk.Hop{} // of an address: its root and index
	next := map[int]int{}
	for _, chunk := range c.Chunks {
		if len(chunk.Pre) != 1 {
			return nil, fmt.Errorf("chunk at address %d begins at %d ranks: must be 1", chunk.Addr, len(chunk.Pre))
		}
		root := chunk.Pre[0]
		where[chunk.Addr] = mk.Hop{Root: root, Index: next[root]}
		next[root]++
	}
	var hops []mk.Hop
	for i, st := range d.Steps {
		for _, send := range st.Sends {
			var at [3]int
			if len(send) < 3 {
				return nil, fmt.Errorf("step %d: a send of %d numbers: must be address, source and destination", i, len(send))
			}
			for k := range at {
				if err := json.Unmarshal(send[k], &at[k]); err != nil {
					return nil, fmt.Errorf("step %d: a send: %w", i, err)
				}
			}
			hop, ok := where[at[0]]
			if !ok {
				return nil, fmt.Errorf("step %d sends address %d, which no chunk has", i, at[0])
			}
			hop.Src, hop.Dst = at[1], at[2]
			hops = append(hops, hop)
		}
	}
	o.Coll, o.GPUs, o.K = coll, c.Nodes, mostOf(next)
	return mk.FromHops("sccl", o, hops)
}

func mostOf(m map[int]int) (most int) {
	for _, n := range m {
		most = max(most, n)
	}
	return most
}

// readFlows reads TE-CCL's flows, "Chunk 0 from 13 traveled over 13->12 in epoch 0 via switches 0". Ranks are the GPUs
// in the order of their numbers: switches have numbers among them.
func readFlows(d *document, o mk.Options) (*schedule.Schedule, error) {
	type flow struct {
		hop   mk.Hop
		epoch int
	}
	var flows []flow
	ids, chunks := map[int]bool{}, 0
	for _, text := range d.Flows {
		var f flow
		if strings.Contains(text, " with volume ") {
			return nil, fmt.Errorf("flow %q: parts of chunks (with volume) are not supported", text)
		}
		if _, err := fmt.Sscanf(text, "Chunk %d from %d traveled over %d->%d in epoch %d", &f.hop.Index, &f.hop.Root, &f.hop.Src, &f.hop.Dst, &f.epoch); err != nil {
			return nil, fmt.Errorf("flow %q: must be like \"Chunk 0 from 13 traveled over 13->12 in epoch 0\"", text)
		}
		ids[f.hop.Root], ids[f.hop.Src], ids[f.hop.Dst] = true, true, true
		chunks = max(chunks, f.hop.Index+1)
		flows = append(flows, f)
	}
	rank := map[int]int{}
	for i, id := range slices.Sorted(maps.Keys(ids)) {
		rank[id] = i
	}
	slices.SortStableFunc(flows, func(a, b flow) int { return cmp.Compare(a.epoch, b.epoch) })
	var hops []mk.Hop
	for _, f := range flows {
		hops = append(hops, mk.Hop{Root: rank[f.hop.Root], Index: f.hop.Index, Src: rank[f.hop.Src], Dst: rank[f.hop.Dst]})
	}
	o.Coll, o.GPUs, o.K = schedule.AllGather, len(rank), chunks
	return mk.FromHops("teccl", o, hops)
}
