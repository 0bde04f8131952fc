// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Attributes of ddlemu. Chakra has no place for times below a microsecond, streams, groups, steps, types and roots. Other
// tools pass over attributes that they do not know.
const (
	attrHead = "ddlemu_head" // of GlobalMetadata: the head of the workload
	attrOp   = "ddlemu_op"   // the operation; the nodes of a group after the first have none
)

// version is that of the schema, which other tools print.
const version = "0.0.4"

// Write writes a workload, one file per rank. create gets what the name of the file ends with: .3.et for rank 3. Process
// groups of some ranks are written to .groups.json, which ASTRA-sim takes as its comm-group-configuration.
func Write(w *workload.Workload, create func(ending string) (io.WriteCloser, error)) error {
	ranks, err := perrank.Split(w)
	if err != nil {
		return err
	}
	head, err := json.Marshal(w.Head)
	if err != nil {
		return err
	}
	comms := perrank.Comms(w)
	index, names := perrank.NewIndex(comms), map[*workload.Comm]string{}
	for i := range comms {
		names[&comms[i]] = groupName(i)
	}
	for r, ops := range ranks {
		p := &printer{rank: r, ranks: len(ranks), comms: index, names: names, last: map[string][]uint64{}, ids: map[int][]uint64{}}
		if err := writeFile(create, fmt.Sprintf(".%d.et", r), func(out io.Writer) error { return p.write(out, head, ops) }); err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
	}
	groups := map[string][]int{}
	for i, c := range comms {
		if len(c.Ranks) < len(ranks) {
			groups[groupName(i)] = c.Ranks
		}
	}
	if len(groups) == 0 {
		return nil
	}
	return writeFile(create, ".groups.json", func(out io.Writer) error { return json.NewEncoder(out).Encode(groups) })
}

func writeFile(create func(string) (io.WriteCloser, error), ending string, write func(io.Writer) error) error {
	f, err := create(ending)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	err = write(out)
	return errors.Join(err, out.Flush(), f.Close())
}

// groupName is the pg_name of the i-th communicator. ASTRA-sim takes numbers from 1.
func groupName(i int) string { return strconv.Itoa(i + 1) }

// printer writes the nodes of a rank.
type printer struct {
	out         io.Writer
	rank, ranks int
	comms       perrank.Index
	names       map[*workload.Comm]string // pg_name
	last        map[string][]uint64       // nodes of the last operation of each stream
	ids         map[int][]uint64          // nodes of the operations with an id
	waited      []uint64                  // what the host has waited for
	nodes       uint64
}

func (p *printer) write(out io.Writer, head []byte, ops []workload.Op) error {
	p.out = out
	var b []byte
	b = protowire.AppendTag(b, headVersion, protowire.BytesType)
	b = protowire.AppendString(b, version)
	if err := p.message(appendAttribute(b, headAttribute, attrHead, attributeText, string(head), 0)); err != nil {
		return err
	}
	for i := range ops {
		if err := p.op(&ops[i]); err != nil {
			return fmt.Errorf("operation %d: %w", i+1, err)
		}
	}
	return nil
}

// message writes a message after its size.
func (p *printer) message(data []byte) error {
	_, err := p.out.Write(append(protowire.AppendVarint(nil, uint64(len(data))), data...))
	return err
}

// op writes the nodes of an operation.
func (p *printer) op(o *workload.Op) error {
	own, err := json.Marshal(o)
	if err != nil {
		return err
	}
	depends := slices.Clone(p.waited)
	for _, id := range o.After {
		depends = append(depends, p.ids[id]...)
	}
	everything := o.Kind == workload.Step || o.Kind == workload.Wait && len(o.After) == 0
	for stream, nodes := range p.last {
		if everything || o.Kind != workload.Wait && stream == o.Stream {
			depends = append(depends, nodes...)
		}
	}
	parts := []workload.Op{*o}
	if o.Kind == workload.Group {
		parts = o.Ops
	}
	var nodes []uint64
	for i := range parts {
		text := ""
		if i == 0 {
			text = string(own)
		}
		nodes = append(nodes, p.nodes)
		data, err := p.node(&parts[i], text, slices.Clone(depends))
		if err == nil {
			err = p.message(data)
		}
		if err != nil {
			return err
		}
		p.nodes++
	}
	switch o.Kind {
	case workload.Step:
		return nil
	case workload.Wait:
		p.waited = nodes
		return nil
	}
	p.last[o.Stream] = nodes
	if o.ID != 0 {
		p.ids[o.ID] = nodes
	}
	return nil
}

// node is a node of the format.
func (p *printer) node(o *workload.Op, own string, depends []uint64) ([]byte, error) {
	var b []byte
	number := func(field protowire.Number, n uint64) {
		b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
	}
	number(nodeID, p.nodes)
	b = protowire.AppendString(protowire.AppendTag(b, nodeName, protowire.BytesType), nodeLabel(o))
	b = appendPacked(b, nodeData, depends)
	b = appendAttribute(b, nodeAttribute, "is_cpu_op", 27, "", 0)
	switch o.Kind {
	case workload.Calc:
		number(nodeKind, uint64(computeNode))
		number(nodeDuration, uint64(o.Nanos+500)/1000)
	case workload.Coll, workload.Send, workload.Recv:
		var err error
		if b, err = p.communication(b, o); err != nil {
			return nil, err
		}
	default:
		number(nodeKind, uint64(metadataNode))
	}
	if own != "" {
		b = appendAttribute(b, nodeAttribute, attrOp, attributeText, own, 0)
	}
	return b, nil
}

// appendPacked appends a list of nodes, each once.
func appendPacked(b []byte, field protowire.Number, list []uint64) []byte {
	if len(list) == 0 {
		return b
	}
	slices.Sort(list)
	var packed []byte
	for _, id := range slices.Compact(list) {
		packed = protowire.AppendVarint(packed, id)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), packed)
}

// nodeLabel is the name of a node.
func nodeLabel(o *workload.Op) string {
	if o.Name != "" {
		return o.Name
	}
	if o.Func != "" {
		return string(o.Func)
	}
	return string(o.Kind)
}

// communication adds what a node of communication has.
func (p *printer) communication(b []byte, o *workload.Op) ([]byte, error) {
	c := p.comms.Of(o.Comm, p.rank)
	size, err := workload.TypeSize(o.Type)
	if err != nil {
		return nil, err
	}
	kind, bytes := collectiveNode, o.Count*size
	attribute := func(name string, n int) { b = appendAttribute(b, nodeAttribute, name, 7, "", uint64(n)) }
	if o.Kind == workload.Coll {
		if f := o.Func; f == workload.ReduceScatter || f == workload.AllToAll || f == workload.Scatter {
			bytes *= int64(len(c.Ranks))
		}
		b = appendAttribute(b, nodeAttribute, "comm_type", 9, "", uint64(slices.Index(functions, o.Func)))
		if len(c.Ranks) < p.ranks {
			b = appendAttribute(b, nodeAttribute, "pg_name", attributeText, p.names[c], 0)
		}
	} else {
		if o.Peer < 0 || o.Peer >= len(c.Ranks) {
			return nil, fmt.Errorf("peer %d of a communicator of %d ranks", o.Peer, len(c.Ranks))
		}
		if kind = sendNode; o.Kind == workload.Recv {
			kind = receiveNode
			attribute("comm_src", c.Ranks[o.Peer])
			attribute("comm_dst", p.rank)
		} else {
			attribute("comm_src", p.rank)
			attribute("comm_dst", c.Ranks[o.Peer])
		}
		attribute("comm_tag", 0)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, nodeKind, protowire.VarintType), uint64(kind))
	return appendAttribute(b, nodeAttribute, "comm_size", 9, "", uint64(bytes)), nil
}

// appendAttribute appends an AttributeProto. field is that of its value: a text, or else a number.
func appendAttribute(b []byte, number protowire.Number, name string, field protowire.Number, text string, value uint64) []byte {
	var a []byte
	a = protowire.AppendString(protowire.AppendTag(a, attributeName, protowire.BytesType), name)
	if field == attributeText {
		a = protowire.AppendString(protowire.AppendTag(a, field, protowire.BytesType), text)
	} else {
		a = protowire.AppendVarint(protowire.AppendTag(a, field, protowire.VarintType), value)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), a)
}

// readOwn reads traces that this package has written.
func readOwn(traces []*trace) (*workload.Workload, error) {
	var head workload.Head
	if err := json.Unmarshal([]byte(traces[0].head[attrHead]), &head); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", traces[0].file, attrHead, err)
	}
	if head.Ranks != len(traces) || traces[len(traces)-1].number != head.Ranks-1 {
		return nil, fmt.Errorf("%s: the workload has %s, given: %s: give one per rank", traces[0].file, units.Count(head.Ranks, "rank"), units.Count(len(traces), "file"))
	}
	lists := make([][]workload.Op, len(traces))
	for i, t := range traces {
		if t.head[attrHead] != traces[0].head[attrHead] {
			return nil, fmt.Errorf("%s and %s are of different workloads", traces[0].file, t.file)
		}
		for _, n := range t.nodes {
			if n.own == "" {
				continue // of a group
			}
			var o workload.Op
			if err := json.Unmarshal([]byte(n.own), &o); err != nil {
				return nil, fmt.Errorf("%s: node %d: %w", t.file, n.id, err)
			}
			lists[i] = append(lists[i], o)
		}
	}
	w := &workload.Workload{Head: head}
	w.Ops = perrank.Join(lists, perrank.Comms(w))
	return w, nil
}
