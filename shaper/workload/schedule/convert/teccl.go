// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
)

// solution is what TE-CCL writes. An all-gather has flows of whole chunks. An all-to-all has flows with a volume, the
// part of a chunk that goes this way; its paths say which parts these are.
type solution struct {
	Flows  []string        `json:"7-Flows"`
	Flows6 []string        `json:"6-Flows"`
	Paths  json.RawMessage `json:"8-Chunk paths"`
	Paths7 json.RawMessage `json:"7-Chunk paths"`
}

// tecclHop is [epoch, "13->12 with volume 0.5 in epoch 0 via switches 0"].
type tecclHop struct {
	epoch, src, dst int
	volume          float64
}

func (h *tecclHop) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &[]any{&h.epoch, &text}); err != nil {
		return err
	}
	if _, err := fmt.Sscanf(text, "%d->%d with volume %g in epoch %d", &h.src, &h.dst, &h.volume,
		&h.epoch); err != nil || !(h.volume > 0 && h.volume < 1.01) {
		return fmt.Errorf("hop %q: must be like \"13->12 with volume 0.5 in epoch 0\"", text)
	}
	return nil
}

func readTECCL(data []byte) (*schedule.Schedule, error) {
	var s solution
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	flows := append(s.Flows, s.Flows6...)
	at := slices.IndexFunc(flows, func(f string) bool { return strings.Contains(f, " with volume ") })
	if at < 0 {
		return readFlows(flows)
	}
	text := s.Paths
	if text == nil {
		text = s.Paths7
	}
	if text == nil {
		return nil, fmt.Errorf(
			"flow %q: parts of chunks (with volume) are understood only with 8-Chunk paths, which say what parts "+
				"they are", flows[at])
	}
	var paths map[string][][]tecclHop
	if err := json.Unmarshal(text, &paths); err != nil {
		return nil, fmt.Errorf("chunk paths: %w", err)
	}
	return readPaths(paths)
}

// epochs are sends by epoch.
type epochs map[int][]mk.Send

// steps are the sends of each epoch that has some.
func (e epochs) steps() (out [][]mk.Send) {
	for _, epoch := range slices.Sorted(maps.Keys(e)) {
		out = append(out, e[epoch])
	}
	return out
}

// ranksOf numbers GPUs in the order of their numbers in the file: switches have numbers among them.
func ranksOf(ids map[int]bool) (map[int]int, error) {
	if len(ids) > mk.MaxGPUs {
		return nil, fmt.Errorf("%d GPUs: must be at most %d", len(ids), mk.MaxGPUs)
	}
	rank := map[int]int{}
	for i, id := range slices.Sorted(maps.Keys(ids)) {
		rank[id] = i
	}
	return rank, nil
}

// readFlows reads the flows of an all-gather, "Chunk 0 from 13 traveled over 13->12 in epoch 0 via switches 0".
func readFlows(texts []string) (*schedule.Schedule, error) {
	type flow struct{ chunk, root, src, dst, epoch int }
	var flows []flow
	ids, chunks := map[int]bool{}, 0
	for _, text := range texts {
		var f flow
		if _, err := fmt.Sscanf(text, "Chunk %d from %d traveled over %d->%d in epoch %d", &f.chunk, &f.root, &f.src,
			&f.dst, &f.epoch); err != nil || f.chunk < 0 || f.chunk >= mk.MaxK {
			return nil, fmt.Errorf(
				"flow %q: must be like \"Chunk 0 from 13 traveled over 13->12 in epoch 0\", with a chunk below %d",
				text, mk.MaxK)
		}
		ids[f.root], ids[f.src], ids[f.dst] = true, true, true
		chunks = max(chunks, f.chunk+1)
		flows = append(flows, f)
	}
	rank, err := ranksOf(ids)
	if err != nil {
		return nil, err
	}
	t := &mk.Transfers{Coll: schedule.AllGather}
	var all []int
	for r := range len(rank) {
		var own []int
		for c := range chunks {
			own = append(own, r*chunks+c)
		}
		t.Inputs, all = append(t.Inputs, own), append(all, own...)
	}
	for range rank {
		t.Outputs = append(t.Outputs, all)
	}
	e := epochs{}
	for _, f := range flows {
		e[f.epoch] = append(e[f.epoch], mk.Send{Address: rank[f.root]*chunks + f.chunk, Src: rank[f.src],
			Dst: rank[f.dst]})
	}
	t.Steps = e.steps()
	return mk.FromSends("teccl", t)
}

// demand is a chunk that goes from one GPU to another, over several paths.
type demand struct {
	dst, chunk, src int
	paths           [][]tecclHop
}

// mostParts is the largest number of parts of a chunk.
const mostParts = 120

// readPaths reads an all-to-all. Chunks are divided into as many parts as all volumes are multiples of; each path
// takes the next parts of its chunk.
func readPaths(paths map[string][][]tecclHop) (*schedule.Schedule, error) {
	var demands []demand
	ids := map[int]bool{}
	for key, p := range paths {
		d := demand{paths: p}
		if _, err := fmt.Sscanf(key, "Demand at %d for chunk %d from %d met by", &d.dst, &d.chunk, &d.src); err != nil {
			return nil, fmt.Errorf("%q: must be like \"Demand at 1 for chunk 0 from 10 met by epoch 71\"", key)
		}
		ids[d.dst], ids[d.src] = true, true
		for _, path := range p {
			for _, h := range path {
				ids[h.src], ids[h.dst] = true, true
			}
		}
		demands = append(demands, d)
	}
	slices.SortFunc(demands, func(a, b demand) int {
		return cmp.Or(cmp.Compare(a.src, b.src), cmp.Compare(a.dst, b.dst), cmp.Compare(a.chunk, b.chunk))
	})
	rank, err := ranksOf(ids)
	if err != nil {
		return nil, err
	}
	per, err := perPair(demands, len(rank))
	if err != nil {
		return nil, err
	}
	n, err := partsOf(demands)
	if err != nil {
		return nil, err
	}
	t := &mk.Transfers{Coll: schedule.AllToAll, Inputs: make([][]int, len(rank)), Outputs: make([][]int, len(rank))}
	for src := range len(rank) {
		for dst := range len(rank) {
			for k := range per * n {
				address := (src*len(rank)+dst)*per*n + k
				t.Inputs[src], t.Outputs[dst] = append(t.Inputs[src], address), append(t.Outputs[dst], address)
			}
		}
	}
	e := epochs{}
	for i := range demands {
		d := &demands[i]
		first := (rank[d.src]*len(rank) + rank[d.dst]) * per * n
		if err := d.send(e, first+i%per*n, n, rank); err != nil {
			return nil, err
		}
	}
	t.Steps = e.steps()
	return mk.FromSends("teccl", t)
}

// perPair is the number of chunks that each rank has for each other. The demands are in order of the pairs.
func perPair(demands []demand, ranks int) (int, error) {
	pairs := ranks * (ranks - 1)
	per := len(demands) / max(pairs, 1)
	if per < 1 || per > mk.MaxK || per*pairs != len(demands) {
		return 0, fmt.Errorf("%d demands between %d GPUs: must be the same number for each pair", len(demands), ranks)
	}
	for i := range demands {
		d := &demands[i]
		again := i > 0 && d.src == demands[i-1].src && d.dst == demands[i-1].dst
		if d.src == d.dst || again != (i%per > 0) {
			return 0, fmt.Errorf(
				"the demands at %d from %d are more or less than the %d of others: only all-to-alls of equal "+
					"parts are read", d.dst, d.src, per)
		}
	}
	return per, nil
}

// partsOf is the smallest number of parts of a chunk of which all volumes are multiples.
func partsOf(demands []demand) (int, error) {
	var volumes []float64
	for i := range demands {
		for _, path := range demands[i].paths {
			if len(path) > 0 {
				volumes = append(volumes, path[0].volume)
			}
		}
	}
	slices.Sort(volumes)
	volumes = slices.Compact(volumes)
	var odd float64
	for n := 1; n <= mostParts; n++ {
		at := slices.IndexFunc(volumes, func(v float64) bool {
			v *= float64(n)
			return math.Round(v) < 1 || math.Abs(v-math.Round(v)) > 1e-3
		})
		if at < 0 {
			return n, nil
		}
		odd = volumes[at]
	}
	return 0, fmt.Errorf(
		"chunks are divided into parts such as %g, which are no multiples of 1/2 to 1/%d: such a schedule has too "+
			"many chunks", odd, mostParts)
}

// send adds the sends of a demand, whose chunk has n parts from an address on.
func (d *demand) send(e epochs, address, n int, rank map[int]int) error {
	failed := func(what string) error {
		return fmt.Errorf("the paths of the demand at %d for chunk %d from %d %s", d.dst, d.chunk, d.src, what)
	}
	done := 0
	for _, path := range d.paths {
		at, epoch := d.src, math.MinInt
		parts := 0
		for i, h := range path {
			v := int(math.Round(h.volume * float64(n)))
			if i == 0 {
				parts = v
			}
			if h.src != at || h.epoch <= epoch || v != parts {
				return failed(
					"are no paths: each hop must begin where the one before ends, in a later epoch, with the same " +
						"volume")
			}
			for k := range min(parts, n) {
				e[h.epoch] = append(e[h.epoch],
					mk.Send{Address: address + done + k, Src: rank[h.src], Dst: rank[h.dst]})
			}
			at, epoch = h.dst, h.epoch
		}
		if at != d.dst {
			return failed("do not end there")
		}
		if done += parts; done > n {
			return failed("carry more than the chunk")
		}
	}
	if done != n {
		return failed("carry less than the chunk")
	}
	return nil
}
