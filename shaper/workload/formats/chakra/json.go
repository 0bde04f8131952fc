// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// Two tools write traces as JSON. Chakra's jsonizer writes each message of the file by protobuf's json_format, one
// after the other: GlobalMetadata, then Nodes. Chakra's feeder reads one object whose workload_graph lists the nodes
// (mlcommons/chakra, src/jsonizer/jsonizer.py and src/feeder/json_node.cpp).
var (
	signMetadata = regexp.MustCompile(`\A\s*\{\s*("version"\s*:\s*"[^"]*"\s*,\s*)?"attr"\s*:\s*\[`)
	signNode     = regexp.MustCompile(
		`"type"\s*:\s*"(METADATA|MEM_LOAD|MEM_STORE|COMP|COMM_SEND|COMM_RECV|COMM_COLL|INVALID)_NODE"`)
	signGraph = regexp.MustCompile(`"workload_graph"\s*:\s*\[`)
)

// startOfJSON tells JSON from a trace in binary whose first message has 123 bytes, which begins with { too.
var startOfJSON = regexp.MustCompile(`\A\s*\{\s*["}]`)

// LikeJSON tells whether a file that begins with head may be a Chakra trace as JSON.
func LikeJSON(head []byte) bool {
	return startOfJSON.Match(head) && (signMetadata.Match(head) || signNode.Match(head) || signGraph.Match(head))
}

// readDocuments reads a trace that the jsonizer has written.
func (t *trace) readDocuments(j *input.JSON, limit *input.Limit) error {
	first := true
	for {
		if !j.More() {
			if _, err := j.Token(); first || err != nil && !errors.Is(err, io.EOF) {
				return j.Wrap(err)
			}
			return nil
		}
		var one document
		if err := j.Decode(&one); err != nil {
			return j.Wrap(err)
		}
		if err := t.add(&one, first); err != nil {
			return j.Wrap(err)
		}
		if err := limit.Add(); err != nil {
			return j.Wrap(err)
		}
		first = false
	}
}

// readGraph reads a trace that is one object with a workload_graph.
func (t *trace) readGraph(j *input.JSON, limit *input.Limit) error {
	return j.Object(func(key string) error {
		switch key {
		case "workload_graph":
			return j.Array(func() error {
				var g graphNode
				if err := j.Decode(&g); err != nil {
					return err
				}
				t.nodes = append(t.nodes, g.node())
				return limit.Add()
			})
		case "ngpus":
			var n input.Integer
			err := j.Decode(&n)
			t.world = int(min(max(n, 0), workload.MaxRanks))
			return err
		}
		return j.Skip()
	})
}

// document is GlobalMetadata or a Node.
type document struct {
	jsonNode
	Attr []jsonAttribute `json:"attr"`
}

// add adds a document to the trace. Only the first one is GlobalMetadata.
func (t *trace) add(m *document, first bool) error {
	if first && m.Type == "" {
		t.head = head{}
		for i := range m.Attr {
			m.Attr[i].set(t.head)
		}
		return nil
	}
	n, err := m.jsonNode.node()
	if err != nil {
		return err
	}
	for i := range m.Attr {
		m.Attr[i].set(n)
	}
	t.nodes = append(t.nodes, n)
	return nil
}

// jsonNode is a Node with the names of json_format, and with the names of the schema (preserving_proto_field_name).
type jsonNode struct {
	ID            input.Integer   `json:"id"`
	Name          string          `json:"name"`
	Type          input.Text      `json:"type"`
	After         []input.Integer `json:"dataDeps"`
	AfterAsNamed  []input.Integer `json:"data_deps"`
	Micros        input.Integer   `json:"durationMicros"`
	MicrosAsNamed input.Integer   `json:"duration_micros"`
	Inputs        struct {
		Values string `json:"values"`
	} `json:"inputs"`
}

// nodeTypes are the types of nodes by their names. A file may have their numbers.
var nodeTypes = map[input.Text]nodeType{
	"METADATA_NODE": metadataNode, "MEM_LOAD_NODE": loadNode, "MEM_STORE_NODE": storeNode, "COMP_NODE": computeNode,
	"COMM_SEND_NODE": sendNode, "COMM_RECV_NODE": receiveNode, "COMM_COLL_NODE": collectiveNode, "INVALID_NODE": 0,
	"": 0,
}

func (j *jsonNode) node() (*node, error) {
	kind, ok := nodeTypes[j.Type]
	if !ok {
		number, err := strconv.Atoi(string(j.Type))
		if err != nil {
			return nil, fmt.Errorf("node %d: %q is no type of a node", j.ID, j.Type)
		}
		kind = nodeType(number)
	}
	n := &node{id: uint64(j.ID), name: j.Name, kind: kind, micros: uint64(max(j.Micros, j.MicrosAsNamed))}
	for _, d := range append(j.After, j.AfterAsNamed...) {
		n.after = append(n.after, uint64(d))
	}
	if n.listsGroups() {
		n.values = j.Inputs.Values
	}
	return n, nil
}

// jsonAttribute is an AttributeProto: a name, and a value whose key says its type.
type jsonAttribute map[string]json.RawMessage

// set gives the attribute to a message. A value that is no number, text or boolean is passed over, as in a trace in
// binary.
func (a jsonAttribute) set(to attributes) {
	var name string
	if json.Unmarshal(a["name"], &name) != nil {
		return
	}
	for key, raw := range a {
		switch key {
		case "name", "docString", "doc_string":
		case "stringVal", "string_val":
			var text string
			if json.Unmarshal(raw, &text) == nil {
				to.setText(name, text)
			}
		case "boolList", "bool_list":
			var list struct{ Values []bool }
			if json.Unmarshal(raw, &list) == nil && bytes.Contains(raw, []byte("false")) {
				to.setFalse(name)
			}
		case "boolVal", "bool_val":
			to.setNumber(name, int64(units.Bit(string(raw) == "true")))
		default:
			var n input.Integer
			if json.Unmarshal(raw, &n) == nil {
				to.setNumber(name, int64(n))
			}
		}
	}
}

// graphNode is a node of a workload_graph. A key that is absent is no attribute of the node.
type graphNode struct {
	ID     input.Integer   `json:"Id"`
	Name   string          `json:"Name"`
	Type   input.Integer   `json:"NodeType"`
	After  []input.Integer `json:"data_deps"`
	Micros input.Integer   `json:"runtime"`
	OnCPU  bool            `json:"is_cpu_op"`
	Comm   *input.Integer  `json:"comm_type"`
	Size   *input.Integer  `json:"comm_size"`
	From   *input.Integer  `json:"comm_src"`
	To     *input.Integer  `json:"comm_dst"`
}

func (g *graphNode) node() *node {
	n := &node{id: uint64(g.ID), name: g.Name, kind: nodeType(g.Type), micros: uint64(max(g.Micros, 0))}
	for _, d := range g.After {
		n.after = append(n.after, uint64(d))
	}
	n.numbers[onCPU], n.has[onCPU] = int64(units.Bit(g.OnCPU)), true
	for at, v := range map[numberAttribute]*input.Integer{commType: g.Comm, commSize: g.Size, commSource: g.From,
		commDestination: g.To} {
		if v != nil {
			n.numbers[at], n.has[at] = int64(*v), true
		}
	}
	return n
}
