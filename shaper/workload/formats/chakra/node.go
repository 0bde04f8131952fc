// SPDX-License-Identifier: Apache-2.0

package chakra

import "strings"

// nodeType is the type of a node.
type nodeType int

// The types of nodes, by their numbers in the format.
const (
	metadataNode nodeType = iota + 1
	loadNode
	storeNode
	computeNode
	sendNode
	receiveNode
	collectiveNode
)

// known says whether the type is one of the format.
func (t nodeType) known() bool { return t >= metadataNode && t <= collectiveNode }

// node is a node of a rank's graph, with the attributes that are used. A trace may have millions of nodes.
type node struct {
	id      uint64
	name    string
	kind    nodeType
	after   []uint64 // data dependencies
	micros  uint64   // duration
	values  string   // of the inputs, if the node lists process groups
	numbers [numberCount]int64
	has     [numberCount]bool
	group   string            // pg_name
	own     map[string]string // ddlemu's attributes, nil if there are none
	partial bool              // involved_dim excludes a dimension
}

// numberAttribute is an attribute whose value is a number or a boolean.
type numberAttribute int

// The attributes that are kept, by their names.
const (
	onCPU numberAttribute = iota
	commType
	commSize
	commSource
	commDestination
	commTag
	numOps
	numberCount
)

var numberNames = map[string]numberAttribute{
	"is_cpu_op": onCPU, "comm_type": commType, "comm_size": commSize, "comm_src": commSource,
	"comm_dst": commDestination, "comm_tag": commTag,
	"num_ops": numOps,
}

func (n *node) setNumber(name string, value int64) {
	if at, ok := numberNames[name]; ok {
		n.numbers[at], n.has[at] = value, true
	}
}

func (n *node) setText(name, value string) {
	switch name {
	case "pg_name":
		n.group = value
	case attrOp, attrBefore, attrAfter:
		if n.own == nil {
			n.own = map[string]string{}
		}
		n.own[name] = value
	}
}

func (n *node) setFalse(name string) { n.partial = n.partial || name == "involved_dim" }

// listsGroups tells whether the inputs of the node list PyTorch's process groups.
func (n *node) listsGroups() bool { return strings.Contains(n.name, "process_group:init") }

// head is the attributes of GlobalMetadata that are texts.
type head map[string]string

func (h head) setText(name, value string) { h[name] = value }

func (head) setNumber(string, int64) {}

func (head) setFalse(string) {}
