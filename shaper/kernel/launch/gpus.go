// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Environment variables that list GPUs, separated by commas. CUDA reads VisibleGPUsEnv. On a node that one lists the
// node's GPUs, and HostGPUsEnv the GPUs of the host.
const (
	VisibleGPUsEnv = "CUDA_VISIBLE_DEVICES"
	HostGPUsEnv    = "DDLEMU_HOST_GPUS"
)

// GPUShare assigns this host's GPUs to emulated nodes.
type GPUShare struct {
	PerNode   int      // GPUs of a node; 0 if neither the fabric nor this host determines it
	Host      []string // GPUs of this host, named as in CUDA_VISIBLE_DEVICES
	Exclusive bool     // each node has PerNode GPUs of Host that no other node has
	Warning   string   // what the user might not expect, "" if nothing
}

// ShareGPUs assigns the GPUs of host to nodes: perNode each or, if perNode is 0, as many as there are for each.
func ShareGPUs(perNode, nodes int, host []string) GPUShare {
	s := GPUShare{PerNode: perNode, Host: host}
	n := len(host)
	if n == 0 {
		return s
	}
	if perNode == 0 {
		s.PerNode = n / nodes
		if n%nodes != 0 && n > nodes {
			s.Warning = fmt.Sprintf("%d GPUs cannot be divided equally among %d nodes: %d of them are not used", n,
				nodes, n%nodes)
		}
	}
	s.Exclusive = s.PerNode > 0 && s.PerNode*nodes <= n
	if !s.Exclusive {
		s.Warning = fmt.Sprintf(
			"this host has too few GPUs (%d) for each node to have its own: the nodes share them, and %s is not changed", n, VisibleGPUsEnv)
	}
	return s
}

// Visible returns CUDA_VISIBLE_DEVICES for a node: with g GPUs per node, node k has GPUs k*g to k*g+g-1 of the host.
// ok is false if the variable must not be changed.
func (s *GPUShare) Visible(node int) (devices string, ok bool) {
	if !s.Exclusive {
		return "", false
	}
	return strings.Join(s.Host[node*s.PerNode:][:s.PerNode], ","), true
}

// HostGPUs returns the GPUs that a program of this process's environment may use: those that an environment variable
// lists, or else all of NVIDIA's driver.
func HostGPUs(lookup func(string) (string, bool)) []string {
	for _, name := range []string{HostGPUsEnv, VisibleGPUsEnv} {
		if text, ok := lookup(name); ok {
			return parseDevices(text)
		}
	}
	found, _ := filepath.Glob("/dev/nvidia[0-9]*") // the pattern is valid
	var all []string
	for i := range found {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// parseDevices returns the devices in a value of CUDA_VISIBLE_DEVICES. As in CUDA, the list ends before the first
// entry that is no device.
func parseDevices(text string) []string {
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
