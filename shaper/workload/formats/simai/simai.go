// SPDX-License-Identifier: Apache-2.0

// Package simai reads the text workloads of SimAI, AICB and ASTRA-sim 1: one line per layer, with the times in ns and the
// communication of its forward pass, of its input gradients and of its weight gradients.
//
// The layers run forward, then in reverse order. A forward or input gradient communication is waited for; that of weight
// gradients overlaps, until the end of the step. Sizes are in bytes, of the whole: for AllGather what comes out, for
// ReduceScatter and AllToAll what goes in.
package simai

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

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
	layers, announced, err := readLayers(lines, o.Limit)
	if err != nil {
		return nil, err
	}
	b := &builder{head: h, options: o, layers: layers, used: map[perrank.Group]bool{}}
	if h.policy == "MICRO" {
		b.micro()
	} else {
		b.step()
	}
	if b.err != nil {
		return nil, lines.Errorf("%w", b.err)
	}
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: h.Ranks, Comms: b.comms()}, Ops: b.ops}
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
	policy                    string
	checkpoints, initiates    map[int]bool // layers
	pipelineBytes             int64
	virtualStages, microSteps int
}

// policies are the parallelisms that are known. The others of ASTRA-sim 1 have loops of their own.
var policies = []string{"DATA", "MODEL", "HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO"}

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
	h := &head{Parallel: perrank.Parallel{Tensor: 1, Expert: 1, Pipeline: 1}, checkpoints: map[int]bool{}, initiates: map[int]bool{}}
	for _, p := range policies {
		if len(words) > 0 && words[0] == p {
			h.policy = p
		}
	}
	if h.policy == "" {
		return nil, lines.Errorf("%q: the first line must begin with one of %s", strings.Join(words, " "), strings.Join(policies, ", "))
	}
	for i := 1; i < len(words); i++ {
		if err := h.set(words, &i); err != nil {
			return nil, lines.Errorf("%w", err)
		}
	}
	if h.Ranks == 0 {
		h.Ranks = o.Ranks
	}
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

// set reads a name: value of the first line.
func (h *head) set(words []string, i *int) error {
	name := strings.TrimSuffix(words[*i], ":")
	targets := map[string]*int{"model_parallel_NPU_group": &h.Tensor, "ep": &h.Expert, "pp": &h.Pipeline, "all_gpus": &h.Ranks,
		"vpp": &h.virtualStages, "ga": &h.microSteps}
	lists := map[string]map[int]bool{"checkpoints": h.checkpoints, "checkpoint_initiates": h.initiates}
	next := func() (int64, error) {
		*i++
		if *i >= len(words) {
			return 0, fmt.Errorf("%s has no value", name)
		}
		n, err := strconv.ParseInt(words[*i], 10, 64)
		if err != nil || n < 0 || n > 1<<40 {
			return 0, fmt.Errorf("%s %s: a number is expected", name, words[*i])
		}
		return n, nil
	}
	if list, ok := lists[name]; ok {
		n, err := next()
		for range min(n, int64(len(words))) {
			var layer int64
			if layer, err = next(); err != nil {
				return err
			}
			list[int(layer)] = true
		}
		return err
	}
	n, err := next()
	if err != nil {
		return err
	}
	if name == "pp_comm" {
		h.pipelineBytes = n
		return nil
	}
	if target, ok := targets[name]; ok {
		if *target = int(n); n < 1 || n > workload.MaxRanks {
			return fmt.Errorf("%s %d: a number from 1 to %d is expected", name, n, workload.MaxRanks)
		}
	}
	return nil
}

// layer is a line.
type layer struct {
	name                string
	forward, input, own work // own is that of the weights
	update              int64
}

// work is a computation with the communication after it.
type work struct {
	nanos int64
	comm  string
	bytes int64
}

func readLayers(lines *input.Lines, limit *input.Limit) (layers []layer, announced int, err error) {
	if !lines.Next() {
		return nil, 0, lines.Errorf("the file ends after the first line: it was cut")
	}
	count, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
	if err != nil || count < 1 || count > math.MaxInt32 {
		return nil, 0, lines.Errorf("%q: the number of layers is expected", lines.Text())
	}
	for len(layers) < count && lines.Next() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		l, err := parseLayer(words)
		if err != nil {
			return nil, 0, lines.Errorf("%w", err)
		}
		if err := limit.Add(); err != nil {
			return nil, 0, lines.Errorf("%w", err)
		}
		layers = append(layers, l)
	}
	if err := lines.Err(); err != nil {
		return nil, 0, err
	}
	if len(layers) == 0 {
		return nil, 0, lines.Errorf("%d layers are announced and none is there: the file was cut", count)
	}
	return layers, count, nil
}

func parseLayer(words []string) (l layer, err error) {
	if len(words) < 12 {
		return l, fmt.Errorf("%d columns: a layer has 12: name, dependency, 3 for each of forward, input and weight gradients, update", len(words))
	}
	number := func(i int) int64 {
		n, e := strconv.ParseInt(words[i], 10, 64)
		if e != nil || n < 0 {
			err = fmt.Errorf("column %d, %q: a number is expected", i+1, words[i])
		}
		return n
	}
	part := func(i int) work {
		return work{nanos: number(i), comm: strings.ToUpper(words[i+1]), bytes: number(i + 2)}
	}
	l = layer{name: words[0], forward: part(2), input: part(5), own: part(8), update: number(11)}
	return l, err
}
