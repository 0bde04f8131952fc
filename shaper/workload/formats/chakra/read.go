// SPDX-License-Identifier: Apache-2.0

// Package chakra reads and writes Chakra execution traces, version 1: one file per rank, whose name has the rank
// before its ending, as in NAME.3.et. The format is protocol buffers, each after its length: GlobalMetadata, then Nodes
// (mlcommons/chakra, schema/protobuf/et_def.proto). It reads the same traces as JSON.
package chakra

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// trace is the file of one rank.
type trace struct {
	file   string
	number int
	head   head
	world  int // the number of ranks, 0 if the trace does not say it
	nodes  []*node
}

// Read reads the files of all ranks of a job, or the file of one rank, which then stands for all.
func Read(files []input.File, o input.Options) (*workload.Workload, error) {
	var traces []*trace
	for i, f := range files {
		t, err := readTrace(f, i, o.Limit)
		if err != nil {
			return nil, err
		}
		traces = append(traces, t)
	}
	slices.SortStableFunc(traces, func(a, b *trace) int { return a.number - b.number })
	for i := 1; i < len(traces); i++ {
		if a, b := traces[i-1], traces[i]; a.number == b.number {
			return nil, fmt.Errorf("%s and %s are both of rank %d", a.file, b.file, a.number)
		}
	}
	if traces[0].head[attrHead] != "" {
		return readOwn(traces)
	}
	j, err := newJob(traces, o)
	if err != nil {
		return nil, err
	}
	lists := make([][]workload.Op, len(traces))
	for i, t := range traces {
		if lists[i], err = j.rank(t); err != nil {
			return nil, fmt.Errorf("%s: %w", t.file, err)
		}
	}
	return perrank.Workload(j.ranks, lists, j.comms.Comms, j.source(traces)), nil
}

// rankOfName finds the rank in a file's name.
var rankOfName = regexp.MustCompile(`(\d+)(\.et)?(\.json)?(\.gz)?$`)

// readTrace reads a file. If its name has no number, the rank is the file's place among the files.
func readTrace(f input.File, place int, limit *input.Limit) (*trace, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	t := &trace{file: f.Name, number: place}
	if m := rankOfName.FindStringSubmatch(filepath.Base(f.Name)); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n < workload.MaxRanks {
			t.number = n
		}
	}
	if start, _ := in.Peek(1 << 14); startOfJSON.Match(start) {
		if signGraph.Match(start) {
			return t, t.readGraph(in.JSON(), limit)
		}
		return t, t.readDocuments(in.JSON(), limit)
	}
	m := &messages{in: in, name: f.Name}
	data, err := m.next()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the file is empty", f.Name)
	}
	if err != nil {
		return nil, err
	}
	if t.head, err = parseHead(data); err != nil {
		return nil, m.errorf("no GlobalMetadata: %w", err)
	}
	for {
		data, err := m.next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		n, err := parseNode(data)
		if err != nil {
			return nil, m.errorf("no node: %w", err)
		}
		if err := limit.Add(); err != nil {
			return nil, m.errorf("%w", err)
		}
		t.nodes = append(t.nodes, n)
	}
}
