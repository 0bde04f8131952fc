// SPDX-License-Identifier: Apache-2.0

package ncclxml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// graphs are the names of the graphs of a graph file, by their ids (NCCL, src/init.cc).
var graphs = map[int]string{0: "Ring", 1: "Tree", 2: "CollNet chain", 3: "NVLS", 4: "CollNet direct"}

// Graphs tells what a graph file says, one line for each graph.
func Graphs(text string) ([]string, error) {
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	var all []string
	root.each("graph", func(g *element) {
		id, e1 := g.number("id", -1)
		channels, e2 := g.number("nchannels", 0)
		if err = cmp.Or(err, e1, e2); err != nil {
			return
		}
		if channels == 0 {
			return // NCCL has no such graph on this node
		}
		name := graphs[id]
		if name == "" {
			name = fmt.Sprintf("graph %d", id)
		}
		line := fmt.Sprintf("%s: %d channels, %s GB/s and %s within a node, %s GB/s and %s between nodes",
			name, channels, g.attr["speedintra"], g.attr["typeintra"], g.attr["speedinter"], g.attr["typeinter"])
		if nets := netsOf(g); len(nets) > 0 {
			line += ", NICs " + strings.Join(nets, " ")
		} else {
			line += ", no NIC"
		}
		all = append(all, line)
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("has no <graph> with channels")
	}
	return all, err
}

// netsOf are the numbers of the NICs of a graph's channels: that by which data comes, and after > that by which it
// leaves if this is another one.
func netsOf(g *element) []string {
	var all []string
	g.each("channel", func(c *element) {
		var nets []string
		c.each("net", func(n *element) { nets = append(nets, decimal(n.attr["dev"])) })
		if nets = slices.Compact(nets); len(nets) > 0 {
			all = append(all, strings.Join(nets, ">"))
		}
	})
	return all
}

// decimal is a number that NCCL writes in hexadecimal, in decimal.
func decimal(text string) string {
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return text
	}
	return strconv.FormatUint(n, 10)
}
