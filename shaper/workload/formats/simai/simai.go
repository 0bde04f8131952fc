// SPDX-License-Identifier: Apache-2.0

// Package simai reads the text workloads of SimAI, AICB and ASTRA-sim 1: one line per layer, with the times in ns and
// the communication of its forward pass, of its input gradients and of its weight gradients.
//
// The layers run forward, then in reverse order. A forward communication is waited for; a communication of weight
// gradients overlaps, until the end of the step. A communication of input gradients is waited for at once in SimAI; in
// ASTRA-sim it overlaps the computation of weight gradients.
//
// Sizes are in bytes. For ReduceScatter and AllToAll they are the input of a rank. For AllGather they are the output in
// files of SimAI and AICB, and the input in files of ASTRA-sim.
package simai

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Read reads a file.
func Read(f input.File, o input.Options) (*workload.Workload, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	lines := in.Lines()
	h, err := readHead(lines, o)
	if err != nil {
		return nil, err
	}
	layers, announced, err := readLayers(lines, h, o.Limit)
	if err != nil {
		return nil, err
	}
	b := &builder{head: h, options: o, layers: layers, sign: h.meaning(layers), used: map[perrank.Group]bool{}}
	b.play()
	if b.err != nil {
		return nil, lines.Errorf("%w", b.err)
	}
	comms, err := b.Comms(b.used, o.Limit)
	if err != nil {
		return nil, lines.Errorf("%w", err)
	}
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: h.Ranks, Comms: comms}, Ops: b.ops}
	w.Head.Source = b.source(filepath.Base(f.Name))
	if len(layers) < announced {
		w.Head.Source.Notes = append(w.Head.Source.Notes,
			fmt.Sprintf("%d layers are announced and %d are there: the file may be cut", announced, len(layers)))
	}
	return w, nil
}

// head is the first line.
type head struct {
	perrank.Parallel
	name                      string // of the policy
	policy                    policy
	sign                      string       // a key that only SimAI has
	checkpoints, initiates    map[int]bool // layers
	pipelineBytes             int64        // -1: the file does not say
	virtualStages, microSteps int
	inference                 bool
	lastBottom                int      // the last layer of a DLRM before the embedding is needed
	unknown                   []string // keys that are not understood
}

func readHead(lines *input.Lines, o input.Options) (*head, error) {
	for lines.Next() {
		if strings.TrimSpace(lines.Text()) != "" {
			break
		}
	}
	words := strings.Fields(lines.Text())
	if err := lines.Err(); err != nil {
		return nil, err
	}
	h := &head{Parallel: perrank.Parallel{Expert: 1, Pipeline: 1}, checkpoints: map[int]bool{},
		initiates: map[int]bool{}, pipelineBytes: -1}
	if len(words) > 0 {
		h.name = words[0]
	}
	var ok bool
	if h.policy, ok = policies[h.name]; !ok {
		return nil, lines.Errorf("%q: the first line must begin with one of %s", strings.Join(words, " "),
			policyNames())
	}
	for at := 1; at < len(words); {
		n, err := h.set(words[at:])
		if err != nil {
			return nil, lines.Errorf("%w", err)
		}
		at += n
	}
	if h.Ranks == 0 {
		h.Ranks = o.Ranks
	}
	if h.Tensor == 0 && h.policy.inner == perrank.Tensor {
		// ASTRA-sim 1 took a dimension of its network before it had this key.
		return nil,
			lines.Errorf(
				"the file does not say how many ranks are in a group of tensor parallelism: write %q into the first "+
					"line",
				h.name+" model_parallel_NPU_group: N")
	}
	h.Tensor = max(h.Tensor, 1)
	switch err := h.Validate(); {
	case h.Ranks < 1:
		return nil, lines.Errorf("the file does not say how many GPUs there are (all_gpus): add --ranks N")
	case h.Ranks > workload.MaxRanks:
		return nil, lines.Errorf("all_gpus %d: at most %d are possible", h.Ranks, workload.MaxRanks)
	case err != nil:
		return nil, lines.Errorf("%w", err)
	}
	return h, nil
}

// set reads a key and its value at the beginning of the words, and returns how many words they are. Numbers may be
// written as Python writes a float. A key that is not known is noted with its value.
func (h *head) set(words []string) (int, error) {
	name := strings.TrimSuffix(words[0], ":")
	if n, err := strconv.Atoi(name); err == nil && (h.name == dlrm || h.name == dlrmOverlap) {
		h.lastBottom = n // ASTRA-sim has no key for it
		return 1, nil
	}
	counts := map[string]*int{"model_parallel_NPU_group": &h.Tensor, "ep": &h.Expert,
		"expert_parallel_npu_group": &h.Expert,
		"pp":                        &h.Pipeline, "all_gpus": &h.Ranks, "vpp": &h.virtualStages, "ga": &h.microSteps}
	count, isCount := counts[name]
	if isCount && name != "model_parallel_NPU_group" || name == "pp_comm" || name == "mode" {
		if h.sign == "" || name == "all_gpus" {
			h.sign = name
		}
	}
	none := len(words) == 1 || strings.HasSuffix(words[1], ":")
	switch {
	case name == "pp_comm" && (none || words[1] == "None"):
		return min(len(words), 2-units.Bit(none)), nil
	case none && isCount:
		return 0, fmt.Errorf("%s has no value", name)
	case isCount:
		n, err := input.Number(words[1])
		if err != nil || n < 1 || n > workload.MaxRanks {
			return 0, fmt.Errorf("%s %s: a number from 1 to %d is expected", name, words[1], workload.MaxRanks)
		}
		*count = int(n)
	case name == "pp_comm":
		n, err := input.Number(words[1])
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		h.pipelineBytes = n
	case name == "mode":
		h.inference = !none && words[1] == "1"
		return 2 - units.Bit(none), nil
	case name == "checkpoints":
		return layerList(name, words, h.checkpoints)
	case name == "checkpoint_initiates":
		return layerList(name, words, h.initiates)
	case name == "DLRM_LAST_BOTTOM_LAYER" && !none:
		n, err := input.Number(words[1])
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		h.lastBottom = int(min(n, math.MaxInt32))
	default:
		h.unknown = append(h.unknown, name)
		return 2 - units.Bit(none), nil
	}
	return 2, nil
}

// layerList reads a number of layers and the layers.
func layerList(name string, words []string, list map[int]bool) (int, error) {
	at := 1
	next := func() (int64, error) {
		if at >= len(words) {
			return 0, fmt.Errorf("%s has no value", name)
		}
		n, err := input.Number(words[at])
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		at++
		return n, nil
	}
	n, err := next()
	for i := int64(0); err == nil && i < n; i++ {
		var layer int64
		if layer, err = next(); err == nil {
			list[int(layer)] = true
		}
	}
	return at, err
}

// layer is a line.
type layer struct {
	name                string
	forward, input, own work // own is that of the weights
	update              int64
	policy              string // of HYBRID_CUSTOMIZED
	rest                bool   // there are columns that are not known
}

// work is a computation with the communication after it.
type work struct {
	nanos int64
	comm  string
	bytes int64
}

func readLayers(lines *input.Lines, h *head, limit *input.Limit) (layers []layer, announced int, err error) {
	if !lines.Next() {
		return nil, 0, lines.Errorf("the file ends after the first line: it was cut")
	}
	n, err := input.Number(strings.TrimSpace(lines.Text()))
	if err != nil || n < 1 {
		return nil, 0, lines.Errorf("%q: the number of layers is expected", lines.Text())
	}
	count := int(n)
	names := map[string]string{} // so that a layer does not keep its line
	for len(layers) < count && lines.Next() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		l, err := parseLayer(words, h.name == customized)
		if err != nil {
			return nil, 0, lines.Errorf("%w", err)
		}
		for _, text := range []*string{&l.name, &l.forward.comm, &l.input.comm, &l.own.comm, &l.policy} {
			if names[*text] == "" {
				names[*text] = strings.Clone(*text)
			}
			*text = names[*text]
		}
		layers = append(layers, l)
		if err := limit.Check(len(layers)); err != nil {
			return nil, 0, lines.Errorf("%w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, 0, err
	}
	if len(layers) == 0 {
		return nil, 0, lines.Errorf("%d layers are announced and none is there: the file was cut", count)
	}
	return layers, count, nil
}

func parseLayer(words []string, custom bool) (l layer, err error) {
	if len(words) < 12 {
		return l, fmt.Errorf(
			"%d columns: a layer has 12: name, dependency, 3 for each of forward, input and weight gradients, "+
				"update", len(words))
	}
	value := func(i int) int64 {
		n, e := input.Number(words[i])
		if e != nil || n > workload.MaxNanos {
			err = fmt.Errorf("column %d, %q: a number of at most %d is expected", i+1, words[i], int64(workload.MaxNanos))
		}
		return n
	}
	part := func(i int) work {
		return work{nanos: value(i), comm: strings.ToUpper(words[i+1]), bytes: value(i + 2)}
	}
	l = layer{name: words[0], forward: part(2), input: part(5), own: part(8), update: value(11), rest: len(words) > 12}
	if custom {
		if len(words) > 12 {
			l.policy, l.rest = words[12], len(words) > 13
		}
		if p, ok := policies[l.policy]; !ok || p.inner == perrank.Tensor {
			return l, fmt.Errorf("%q: a layer of %s has its parallelism in column 13, such as DATA or MODEL", l.policy,
				customized)
		}
	}
	return l, err
}
