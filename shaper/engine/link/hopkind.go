// SPDX-License-Identifier: Apache-2.0

package link

// HopKind is the kind of a hop. The engine treats all kinds alike: they are for code that describes and shows hops. The
// numbers are in files of fabrics.
type HopKind uint32

// Kinds of hops. What there is to know of each is in kinds.
const (
	TxPort  HopKind = iota // of a NIC
	RxPort                 // of a NIC
	Link                   // from one NIC to a NIC of another node
	Trunk                  // a link between two switches
	GPUOut                 // out of a GPU, to the switches within its node
	GPUIn                  // from there into a GPU
	GPULink                // from one GPU of a node to another one
	PCIOut                 // out of a PCI switch of a node, to its other ones; numbered over the fabric
	PCIIn
	CPUOut // out of a CPU of a node, to its other ones; numbered over the fabric
	CPUIn
)

// way is how a link within a node goes.
type way uint8

const (
	between way = iota + 1 // from one to another of its kind
	out                    // out of one, to the switches of the node
	in                     // from there into one
)

// kinds are the kinds of hops.
var kinds = [...]struct {
	name   string // of the kind; within a node, of what the link leaves or enters
	within way    // 0: it is not within a node
}{
	TxPort: {name: "tx"}, RxPort: {name: "rx"}, Link: {name: "link"}, Trunk: {name: "trunk"},
	GPUOut: {"gpu", out}, GPUIn: {"gpu", in}, GPULink: {"gpu", between},
	PCIOut: {"pci", out}, PCIIn: {"pci", in},
	CPUOut: {"cpu", out}, CPUIn: {"cpu", in},
}

// Known says whether there is such a kind. The other methods are for kinds that are known.
func (k HopKind) Known() bool { return int(k) < len(kinds) }

// Name is a short name of the kind, in small letters: tx, rx, link, trunk; within a node gpu, pci or cpu, for what the
// link leaves or enters.
func (k HopKind) Name() string { return kinds[k].name }

// IsWithinNode says whether a hop is a link within a node.
func (k HopKind) IsWithinNode() bool { return kinds[k].within != 0 }

// IsOut says whether a hop goes out of a part of a node, to the switches of the node.
func (k HopKind) IsOut() bool { return kinds[k].within == out }

// IsIn says whether a hop goes from the switches of a node into a part of it.
func (k HopKind) IsIn() bool { return kinds[k].within == in }
