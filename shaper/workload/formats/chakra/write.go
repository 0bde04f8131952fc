// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// version is the schema's version, which other tools print.
const version = "0.0.4"

// GroupsEnding is what the name of the file with the process groups ends with.
const GroupsEnding = ".groups.json"

// Write writes a workload, one file per rank, one after the other. create gets what the name of the file ends with:
// .3.et for rank 3. Process groups of some ranks are written to [GroupsEnding], which ASTRA-sim takes as its
// comm-group-configuration.
//
// All nodes are computations, sends, receives, and collectives of the functions that ASTRA-sim has: it ends at a node
// of any other kind. What has no node, such as the end of a step, is in the attributes of the next one.
func Write(w *workload.Workload, create func(ending string) (io.WriteCloser, error)) error {
	ix, err := w.Index()
	if err != nil {
		return err
	}
	head, err := json.Marshal(w.Head)
	if err != nil {
		return err
	}
	groups, tags := groupsOf(ix), map[*workload.Comm]uint64{}
	for i := range ix.Comms {
		tags[&ix.Comms[i]] = uint64(i)
	}
	for r := range w.Head.Ranks {
		err := writeFile(create, fmt.Sprintf(".%d.et", r), func(out io.Writer) error {
			p := &printer{out: out, rank: r, ix: ix, groups: groups, tags: tags, order: perrank.NewOrder[uint64](),
				excess: map[string]int64{}}
			return p.write(head)
		})
		if err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	return writeFile(create, GroupsEnding, func(out io.Writer) error {
		ranks := map[string][]int{}
		for c, name := range groups {
			ranks[name] = c.Ranks
		}
		return json.NewEncoder(out).Encode(ranks)
	})
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

// groupsOf are the process groups by their communicators: communicators of some of the ranks, with collectives. Their
// names are the numbers from 1, because ASTRA-sim takes 0 for all ranks.
func groupsOf(ix *workload.Index) map[*workload.Comm]string {
	called := make([]bool, len(ix.Names))
	for i := range ix.Workload.Ops {
		for part := range ix.Workload.Ops[i].Parts() {
			if part.Kind == workload.Coll && nodesOf(part.Func) == oneNode {
				called[ix.NameOf(part.Comm)] = true
			}
		}
	}
	groups := map[*workload.Comm]string{}
	for i := range ix.Comms {
		if c := &ix.Comms[i]; called[ix.NameOf(c.Name)] && len(c.Ranks) > 1 && len(c.Ranks) < ix.Workload.Head.Ranks {
			groups[c] = strconv.Itoa(len(groups) + 1)
		}
	}
	return groups
}

// printer writes the nodes of a rank.
type printer struct {
	out    io.Writer
	rank   int
	ix     *workload.Index
	groups map[*workload.Comm]string // pg_name
	tags   map[*workload.Comm]uint64 // of messages: those of a communicator match in order

	order *perrank.Order[uint64] // of node ids
	// of each stream: ns by which the durations in us are too short so far, at most half a us
	excess map[string]int64

	nodes   uint64            // that have an id
	held    []byte            // the last node, which may get another attribute
	carried []json.RawMessage // operations without nodes since then
	own     string            // the operation of the next node
}

func (p *printer) write(head []byte) error {
	var b []byte
	b = protowire.AppendTag(b, headVersion, protowire.BytesType)
	b = protowire.AppendString(b, version)
	p.held = appendAttribute(b, headAttribute, attrHead, attributeText, string(head), 0)
	for o, err := range perrank.OfRank(p.ix, p.rank) {
		if err != nil {
			return err
		}
		if err := p.op(&o); err != nil {
			return err
		}
	}
	return p.finish()
}

// finish writes the last node. ASTRA-sim does not end a rank without nodes, so it gets one.
func (p *printer) finish() error {
	if p.nodes == 0 {
		if _, err := p.node("nothing", computeNode, nil, nil); err != nil {
			return err
		}
	}
	if len(p.carried) > 0 {
		p.held = appendAttribute(p.held, nodeAttribute, attrAfter, attributeText, p.carriedList(), 0)
	}
	return p.flush()
}

// flush writes the node that is held, after its size.
func (p *printer) flush() error {
	_, err := p.out.Write(append(protowire.AppendVarint(nil, uint64(len(p.held))), p.held...))
	return err
}

// carriedList is the list of the operations that have no node.
func (p *printer) carriedList() string {
	data, err := json.Marshal(p.carried)
	if err != nil {
		panic(err) // each of them was marshalled before
	}
	p.carried = nil
	return string(data)
}

// Limits above which a joining node is written, which takes no time and only waits.
const (
	maxDepends = 1000 // nodes that a node depends on
	maxEdges   = 4000 // dependencies of the nodes of an operation together
	maxCarried = 1000 // operations that one node has in its attributes
)

// op writes the nodes of an operation.
func (p *printer) op(o *workload.Op) error {
	own, err := json.Marshal(o)
	if err != nil {
		return err
	}
	switch o.Kind {
	case workload.Wait:
		p.order.Wait(o)
		return p.carry(own)
	case workload.Step:
		return p.carry(own)
	}
	depends, err := p.depends(o)
	if err != nil {
		return err
	}
	first := p.nodes
	p.own = string(own)
	nodes, err := p.calls(o, depends)
	if err != nil {
		return err
	}
	if p.nodes == first { // it takes no time: what comes after it waits for what it waits for
		p.own = ""
		if err := p.carry(own); err != nil {
			return err
		}
	}
	p.order.Written(o, nodes)
	return nil
}

// carry keeps an operation without a node for the next one.
func (p *printer) carry(own []byte) error {
	if p.carried = append(p.carried, own); len(p.carried) < maxCarried {
		return nil
	}
	_, err := p.node("nothing", computeNode, nil, nil)
	return err
}

// depends are the nodes that must have ended before an operation starts.
func (p *printer) depends(o *workload.Op) ([]uint64, error) {
	out := p.order.Before(o, false)
	parts := 1
	if o.Kind == workload.Group {
		parts = len(o.Ops)
	}
	if len(out) <= maxDepends && (len(out) == 1 || len(out)*parts <= maxEdges) {
		return out, nil
	}
	joined, err := p.node("join", computeNode, out, nil)
	return []uint64{joined}, err
}

// node writes a node, which ends that which is held. more are its further fields.
func (p *printer) node(name string, kind nodeType, depends []uint64, more []byte) (id uint64, err error) {
	if err := p.flush(); err != nil {
		return 0, err
	}
	id = p.nodes
	p.nodes++
	var b []byte
	number := func(field protowire.Number, n uint64) {
		b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
	}
	number(nodeID, id)
	b = protowire.AppendString(protowire.AppendTag(b, nodeName, protowire.BytesType), name)
	number(nodeKind, uint64(kind))
	b = appendPacked(b, nodeData, depends)
	b = appendAttribute(b, nodeAttribute, "is_cpu_op", 27, "", 0)
	b = append(b, more...)
	if len(p.carried) > 0 {
		b = appendAttribute(b, nodeAttribute, attrBefore, attributeText, p.carriedList(), 0)
	}
	if p.own != "" {
		b = appendAttribute(b, nodeAttribute, attrOp, attributeText, p.own, 0)
		p.own = ""
	}
	p.held = b
	return id, nil
}

// appendPacked appends a sorted list of nodes.
func appendPacked(b []byte, field protowire.Number, list []uint64) []byte {
	if len(list) == 0 {
		return b
	}
	var packed []byte
	for _, id := range list {
		packed = protowire.AppendVarint(packed, id)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), packed)
}

// appendAttribute appends an AttributeProto. field is the field of its value: a text, or else a number.
func appendAttribute(b []byte, number protowire.Number, name string, field protowire.Number, text string,
	value uint64) []byte {
	var a []byte
	a = protowire.AppendString(protowire.AppendTag(a, attributeName, protowire.BytesType), name)
	if field == attributeText {
		a = protowire.AppendString(protowire.AppendTag(a, field, protowire.BytesType), text)
	} else {
		a = protowire.AppendVarint(protowire.AppendTag(a, field, protowire.VarintType), value)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), a)
}
