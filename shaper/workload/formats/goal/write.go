// SPDX-License-Identifier: Apache-2.0

package goal

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Write writes a workload of computations, sends, receives and groups of them. It refuses collectives: GOAL has none.
// Streams, and the host's waits, become requirements. Steps and the upper bounds of durations are lost.
func Write(out io.Writer, w *workload.Workload) error {
	ranks, err := perrank.Split(w)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(out)
	fmt.Fprintf(b, "num_ranks %d\n", len(ranks))
	comms := perrank.NewIndex(perrank.Comms(w))
	for r, ops := range ranks {
		fmt.Fprintf(b, "\nrank %d {\n", r)
		p := &printer{out: b, rank: r, comms: comms, cpus: map[string]int{}, last: map[string][]string{}, ids: map[int][]string{}}
		for i := range ops {
			if err := p.op(&ops[i]); err != nil {
				return fmt.Errorf("rank %d: operation %d: %w", r, i+1, err)
			}
		}
		fmt.Fprintln(b, "}")
	}
	return b.Flush()
}

// printer writes the tasks of a rank.
type printer struct {
	out    io.Writer
	rank   int
	comms  perrank.Index
	cpus   map[string]int
	last   map[string][]string // labels of the last operation of each stream
	ids    map[int][]string    // labels of the operations with an id
	waited []string            // labels that the host has waited for
	labels int
}

func (p *printer) op(o *workload.Op) error {
	requires := append([]string(nil), p.waited...)
	for _, id := range o.After {
		requires = append(requires, p.ids[id]...)
	}
	switch o.Kind {
	case workload.Step:
		return nil
	case workload.Wait:
		if len(o.After) == 0 {
			for _, labels := range p.last {
				requires = append(requires, labels...)
			}
		}
		p.waited = requires
		return nil
	}
	if !p.implied(o) {
		requires = append(requires, p.last[o.Stream]...)
	}
	parts := []workload.Op{*o}
	if o.Kind == workload.Group {
		parts = o.Ops
	}
	var labels []string
	for i := range parts {
		label, err := p.task(&parts[i], o.Stream, requires)
		if err != nil {
			return err
		}
		labels = append(labels, label)
	}
	p.last[o.Stream] = labels
	if o.ID != 0 {
		p.ids[o.ID] = labels
	}
	return nil
}

// implied tells whether the reader of the file puts the operation on its stream anyway, so that the order on the stream
// needs no requirement.
func (p *printer) implied(o *workload.Op) bool {
	switch o.Kind {
	case workload.Calc:
		_, isCPU := cpuOf(o.Stream)
		return isCPU
	case workload.Send, workload.Recv:
		c := p.comms.Of(o.Comm, p.rank)
		return o.Stream == o.Comm && len(c.Ranks) == 2 && o.Comm == pairName(c.Ranks[0], c.Ranks[1])
	}
	return false
}

// task writes a task and what it requires. Tags are 0: messages of a pair match in order.
func (p *printer) task(o *workload.Op, stream string, requires []string) (string, error) {
	p.labels++
	label := fmt.Sprintf("l%d", p.labels)
	switch o.Kind {
	case workload.Calc:
		fmt.Fprintf(p.out, "%s: calc %d cpu %d\n", label, o.Nanos, p.cpu(stream))
	case workload.Send, workload.Recv:
		c := p.comms.Of(o.Comm, p.rank)
		size, err := workload.TypeSize(o.Type)
		if err != nil {
			return "", err
		}
		if o.Peer < 0 || o.Peer >= len(c.Ranks) || c.Ranks[o.Peer] == p.rank {
			return "", fmt.Errorf("peer %d: another rank of communicator %s is expected", o.Peer, o.Comm)
		}
		word := map[workload.Kind]string{workload.Send: "to", workload.Recv: "from"}[o.Kind]
		fmt.Fprintf(p.out, "%s: %s %db %s %d tag 0 cpu 0 nic 0\n", label, o.Kind, o.Count*size, word, c.Ranks[o.Peer])
	default:
		what := strings.TrimSpace(string(o.Kind) + " " + string(o.Func))
		return "", fmt.Errorf("%s: GOAL has only computations, sends and receives; chakra has collectives", what)
	}
	seen := map[string]bool{}
	for _, r := range requires {
		if !seen[r] {
			seen[r] = true
			fmt.Fprintf(p.out, "%s requires %s\n", label, r)
		}
	}
	return label, nil
}

// cpuOf is K of the stream cpuK.
func cpuOf(stream string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(stream, "cpu"))
	return n, err == nil && n >= 0 && stream == fmt.Sprintf("cpu%d", n)
}

// cpu is the number of a stream: that of its name if it is cpuK, else the next one from 100 on.
func (p *printer) cpu(stream string) int {
	if n, ok := cpuOf(stream); ok {
		return n
	}
	if _, ok := p.cpus[stream]; !ok {
		p.cpus[stream] = 100 + len(p.cpus)
	}
	return p.cpus[stream]
}
