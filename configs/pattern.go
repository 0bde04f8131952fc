// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"strconv"
	"strings"
)

// Any stands for every node or NIC in an End.
const Any = -1

// End is one end of a link: a NIC of a node, both counted from 0, or Any.
type End struct{ Node, NIC int }

// Pattern names links, and ports where it names whole nodes or NICs:
//
//	node0:node1            the links between two nodes, both directions
//	node0>node1            one direction
//	node0.nic1:node1.nic1  the links between two NICs
//	node0>*                the links from a node
//	*.nic1:*.nic1          a rail: the links between second NICs
//	node0                  all links from and to a node, and its ports
//	node0.nic1             all links from and to a NIC, and its ports
//	*                      everything
//
// A node may also be given as its number alone.
type Pattern struct {
	From, To End
	OneWay   bool
	Ports    bool // one end was given: From; To is everything
}

const patternHelp = "name links as node0:node1, node0>node1, node0.nic1:node1.nic1, node0 or *"

// ParsePattern reads a pattern.
func ParsePattern(s string) (Pattern, error) {
	p := Pattern{To: End{Any, Any}}
	from, to, two := strings.Cut(s, ":")
	if !two {
		from, to, two = strings.Cut(s, ">")
		p.OneWay = two
	}
	p.Ports = !two
	var err error
	if p.From, err = parseEnd(from); err != nil {
		return Pattern{}, fmt.Errorf("%q does not name links: %s", s, patternHelp)
	}
	if two {
		if p.To, err = parseEnd(to); err != nil {
			return Pattern{}, fmt.Errorf("%q does not name links: %s", s, patternHelp)
		}
	}
	if p.From.Node == p.To.Node && p.From.Node != Any {
		return Pattern{}, fmt.Errorf("%q names links within a node, which are not emulated: %s", s, patternHelp)
	}
	return p, nil
}

func parseEnd(s string) (End, error) {
	node, nic, ok := strings.Cut(strings.TrimSpace(s), ".")
	e := End{Any, Any}
	var err error
	if ok && nic != "*" {
		if e.NIC, err = index(nic, "nic", false); err != nil {
			return End{}, err
		}
	}
	if node != "*" {
		e.Node, err = index(node, "node", true)
	}
	return e, err
}

// index reads prefixN, or N alone if bare.
func index(s, prefix string, bare bool) (int, error) {
	number, ok := strings.CutPrefix(s, prefix)
	if !ok && !bare {
		return 0, fmt.Errorf("%q is not a %s", s, prefix)
	}
	return ParseInt(number)
}

// String is p as ParsePattern reads it.
func (p Pattern) String() string {
	switch {
	case p.Ports:
		return p.From.String()
	case p.OneWay:
		return p.From.String() + ">" + p.To.String()
	}
	return p.From.String() + ":" + p.To.String()
}

// String is e as a pattern has it.
func (e End) String() string {
	s := "*"
	if e.Node != Any {
		s = "node" + strconv.Itoa(e.Node)
	}
	if e.NIC != Any {
		s += ".nic" + strconv.Itoa(e.NIC)
	}
	return s
}

func (e End) matches(x End) bool {
	return (e.Node == Any || e.Node == x.Node) && (e.NIC == Any || e.NIC == x.NIC)
}

// MatchLink says whether p names the link between two NICs.
func (p Pattern) MatchLink(from, to End) bool {
	return p.From.matches(from) && p.To.matches(to) ||
		!p.OneWay && p.From.matches(to) && p.To.matches(from)
}

// MatchPorts says whether p names the ports of a NIC.
func (p Pattern) MatchPorts(nic End) bool { return p.Ports && p.From.matches(nic) }

// Check says whether p names nodes and NICs that f has.
func (p Pattern) Check(f *Fabric) error {
	for _, e := range []End{p.From, p.To} {
		if e.Node >= f.Nodes {
			return fmt.Errorf("%q names node %d: the fabric has node 0 to %d", p, e.Node, f.Nodes-1)
		}
		if e.NIC >= f.NICsPerNode {
			return fmt.Errorf("%q names NIC %d: each node has NIC 0 to %d", p, e.NIC, f.NICsPerNode-1)
		}
	}
	return nil
}
