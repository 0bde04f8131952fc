// SPDX-License-Identifier: Apache-2.0

// Package gpus shares out this host's GPUs among emulated nodes.
package gpus

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Variables: the one that CUDA reads, and the one that tells a program on a node,
// which has only its node's GPUs in the first, which ones the host has.
const (
	VisibleEnv = "CUDA_VISIBLE_DEVICES"
	HostEnv    = "DDLEMU_HOST_GPUS"
)

// Share is who gets which GPUs.
type Share struct {
	PerNode int      // GPUs of a node; 0 if neither the fabric nor this host says
	Host    []string // this host's, as CUDA_VISIBLE_DEVICES names them
	Apart   bool     // each node has PerNode of Host for itself
	Warning string   // what the user might not expect, "" if nothing
}

// New shares out the GPUs of host among nodes, perNode each; with perNode 0 as many
// as there are.
func New(perNode, nodes int, host []string) Share {
	s := Share{PerNode: perNode, Host: host}
	n := len(host)
	if n == 0 {
		return s
	}
	if perNode == 0 {
		s.PerNode = n / nodes
		if n%nodes != 0 && n > nodes {
			s.Warning = fmt.Sprintf("%d GPUs do not divide among %d nodes: %d of them are left out", n, nodes, n%nodes)
		}
	}
	s.Apart = s.PerNode > 0 && s.PerNode*nodes <= n
	if !s.Apart {
		s.Warning = fmt.Sprintf("the nodes share this host's %d GPUs, there are too few for each to have its own: %s is left as it is", n, VisibleEnv)
	}
	return s
}

// Visible is CUDA_VISIBLE_DEVICES on a node: GPUs k*g to k*g+g-1 of the host's for
// node k with g GPUs; false if it is to be left as it is.
func (s *Share) Visible(node int) (string, bool) {
	if !s.Apart {
		return "", false
	}
	return strings.Join(s.Host[node*s.PerNode:][:s.PerNode], ","), true
}

// Host is the GPUs that a program started here may use: those that it was told of,
// or all that NVIDIA's driver has.
func Host(lookup func(string) (string, bool)) []string {
	for _, name := range []string{HostEnv, VisibleEnv} {
		if text, ok := lookup(name); ok {
			return list(text)
		}
	}
	found, _ := filepath.Glob("/dev/nvidia[0-9]*") // the pattern is a good one
	var all []string
	for i := range found {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// list is the devices in a value of CUDA_VISIBLE_DEVICES. It ends, as CUDA has it,
// before the first that is none.
func list(text string) []string {
	var all []string
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" || strings.HasPrefix(entry, "-") || strings.EqualFold(entry, "NoDevFiles") {
			break
		}
		all = append(all, entry)
	}
	return all
}
