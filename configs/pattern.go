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
//	*                      all of the above
//	leaf0:spine1           the link between two switches, both directions
//	leaf0>spine1           one direction
//	leaf0                  all links between a switch and others
//	leaf*>spine*           a star at the end of a switch's name matches any text
//
// A node may also be given as its number alone.
type Pattern struct {
	From, To End
	OneWay   bool
	Ports    bool // only one end, From, was given; To is every NIC

	// The names of the switches, if the pattern is of links between switches, else empty.
	// "*" alone is any switch.
	FromSwitch, ToSwitch string
}

const (
	nodeHelp    = "name links as node0:node1, node0>node1, node0.nic1:node1.nic1, node0 or *"
	patternHelp = nodeHelp + "; those between switches as leaf0:spine1 or leaf0"
	switchHelp  = "a letter, then letters, digits, '-' and '_', at most 64, and not a node's name"
)

// Trunk reports whether p names links between switches.
func (p Pattern) Trunk() bool { return p.FromSwitch != "" }

// ParsePattern reads a pattern.
func ParsePattern(s string) (Pattern, error) {
	p := Pattern{To: End{Any, Any}}
	from, to, two := strings.Cut(s, ":")
	if !two {
		from, to, two = strings.Cut(s, ">")
		p.OneWay = two
	}
	p.Ports = !two
	if q, ok := p.trunk(from, to); ok {
		return q, nil
	}
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

// trunk is p as a pattern of links between switches. ok is false if its ends are not
// names of switches.
func (p Pattern) trunk(from, to string) (q Pattern, ok bool) {
	p.From, p.FromSwitch, p.ToSwitch = p.To, strings.TrimSpace(from), strings.TrimSpace(to)
	if p.Ports {
		p.ToSwitch = "*"
	}
	a, b := switchGlob(p.FromSwitch), switchGlob(p.ToSwitch)
	return p, a && b || a && p.ToSwitch == "*" || b && p.FromSwitch == "*"
}

// validSwitch reports whether s can be the name of a switch.
func validSwitch(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9') && c != '-' && c != '_') {
			return false
		}
	}
	rest, node := strings.CutPrefix(s, "node")
	return s != "" && len(s) <= maxName && !(node && strings.Trim(rest, "0123456789") == "")
}

// switchGlob reports whether s names one switch, or all whose names begin with the text
// before its star.
func switchGlob(s string) bool {
	head, _ := strings.CutSuffix(s, "*")
	return validSwitch(head)
}

// MatchTrunk reports whether p names the link from one switch to another, by their
// names.
func (p Pattern) MatchTrunk(from, to string) bool {
	if !p.Trunk() {
		return false
	}
	return glob(p.FromSwitch, from) && glob(p.ToSwitch, to) || !p.OneWay && glob(p.FromSwitch, to) &&
		glob(p.ToSwitch, from)
}

func glob(pattern, name string) bool {
	if head, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, head)
	}
	return pattern == name
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

// index reads the N of prefixN. If bare is true, N alone is allowed too.
func index(s, prefix string, bare bool) (int, error) {
	number, ok := strings.CutPrefix(s, prefix)
	if !ok && !bare {
		return 0, fmt.Errorf("%q is not a %s", s, prefix)
	}
	return ParseInt(number)
}

// String returns p in the form that ParsePattern reads.
func (p Pattern) String() string {
	switch {
	case p.Trunk() && p.Ports:
		return p.FromSwitch
	case p.Trunk() && p.OneWay:
		return p.FromSwitch + ">" + p.ToSwitch
	case p.Trunk():
		return p.FromSwitch + ":" + p.ToSwitch
	case p.Ports:
		return p.From.String()
	case p.OneWay:
		return p.From.String() + ">" + p.To.String()
	}
	return p.From.String() + ":" + p.To.String()
}

// String returns e in the form of a pattern.
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

// MatchLink reports whether p names the link from one NIC to another.
func (p Pattern) MatchLink(from, to End) bool {
	return !p.Trunk() && (p.From.matches(from) && p.To.matches(to) ||
		!p.OneWay && p.From.matches(to) && p.To.matches(from))
}

// MatchPorts reports whether p names the ports of a NIC.
func (p Pattern) MatchPorts(nic End) bool { return p.Ports && !p.Trunk() && p.From.matches(nic) }

// Check returns an error if p names nodes or NICs that f lacks. Fabric.Validate, which
// lays out the switches, checks their names.
func (p Pattern) Check(f *Fabric) error {
	if p.Trunk() && f.Topology.IsStar() {
		return fmt.Errorf("%q does not name links: the switch of the topology star has no name; %s", p, nodeHelp)
	}
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
