// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"slices"
	"strings"
)

// Net is what NCCL's own lines (NCCL_DEBUG=INFO) say of the connections between nodes; the zero Net is nothing.
type Net struct {
	Name string // of NCCL's net, such as IB or Socket; several are joined by commas
	NICs int    // different ones, by their number on a node
	// Ends are ends of connections, and Direct those whose NIC reads or writes the GPU's memory itself (GPUDirect RDMA).
	Ends, Direct int
}

// netFinder collects a Net.
type netFinder struct {
	net   Net
	names []string
	nics  map[string]bool
}

// connectsBy begins what a line says of a connection between nodes: "... via NET/IB/0/GDRDMA", "... via
// NET/Socket/1(3)".
const connectsBy = " via NET/"

// read reads the text of a message of NCCL.
func (f *netFinder) read(text string) {
	_, via, found := strings.Cut(text, connectsBy)
	parts := strings.Split(via, "/")
	if !found || len(parts) < 2 {
		return
	}
	number, _, _ := strings.Cut(strings.TrimSpace(parts[1]), "(")
	if !digits(number) {
		return
	}
	if !slices.Contains(f.names, parts[0]) {
		f.names = append(f.names, parts[0])
	}
	if f.nics == nil {
		f.nics = map[string]bool{}
	}
	f.nics[number] = true
	f.net.Ends++
	if slices.ContainsFunc(parts[2:], func(p string) bool { return strings.HasPrefix(p, "GDRDMA") }) {
		f.net.Direct++
	}
}

// found returns what was read.
func (f *netFinder) found() Net {
	n := f.net
	n.Name, n.NICs = strings.Join(f.names, ", "), len(f.nics)
	return n
}
