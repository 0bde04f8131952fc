// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
)

// ncclVariables are documented variables of NCCL that change what a job sends. None names a file, a host or an
// interface: those are of the cluster, and a workload knows no network.
var ncclVariables = []string{
	"NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
	"NCCL_MIN_CTAS",
	"NCCL_MAX_CTAS", "NCCL_NCHANNELS_PER_NET_PEER", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_CROSS_NIC", "NCCL_PXN_DISABLE",
	"NCCL_P2P_PXN_LEVEL",
}

// NCCLVariables are the variables that [Head.NCCL] may have.
func NCCLVariables() []string { return slices.Clone(ncclVariables) }

func checkNCCLVariable(name, value string) error {
	if !slices.Contains(ncclVariables, name) {
		return fmt.Errorf("%s is none of the variables that a workload can have: %s", name,
			strings.Join(ncclVariables, ", "))
	}
	if err := configs.CheckNCCLValue(value); err != nil {
		return fmt.Errorf("%s=%w", name, err)
	}
	known := map[string][]string{"NCCL_ALGO": ncclAlgos, "NCCL_PROTO": ncclProtos}[name]
	if known == nil {
		return nil
	}
	if err := checkNCCLList(value, known); err != nil {
		return fmt.Errorf("%s=%s: %w", name, value, err)
	}
	return nil
}

// The values of NCCL_ALGO and NCCL_PROTO, and the collectives that have lists of their own since NCCL 2.24. NCCL reads
// all of them in either case.
var (
	ncclAlgos  = []string{"Tree", "Ring", "CollNet", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"}
	ncclProtos = []string{"LL", "LL128", "Simple"}
	ncclFuncs  = []string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}
)

// checkNCCLList checks a list such as Ring,Tree, or ^LL128 for all others, or ring;allreduce:^tree for each collective.
func checkNCCLList(text string, known []string) error {
	isKnown := func(what, word string, names []string) error {
		if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, word) }) {
			return nil
		}
		return unknown(what, word, names)
	}
	for _, list := range strings.Split(text, ";") {
		if f, rest, found := strings.Cut(list, ":"); found {
			if err := isKnown("collective", f, ncclFuncs); err != nil {
				return err
			}
			list = rest
		}
		for _, word := range strings.Split(strings.TrimPrefix(list, "^"), ",") {
			if err := isKnown("value", word, known); err != nil {
				return err
			}
		}
	}
	return nil
}

// NCCLEnv are the variables that the job had, as NAME=VALUE, by name.
func (h *Head) NCCLEnv() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(h.NCCL)) {
		out = append(out, name+"="+h.NCCL[name])
	}
	return out
}

// SetNCCL adds a variable, given as NAME=VALUE, to those that the job had.
func (h *Head) SetNCCL(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q is not NAME=VALUE", text)
	}
	if err := checkNCCLVariable(name, value); err != nil {
		return err
	}
	if h.NCCL == nil {
		h.NCCL = map[string]string{}
	}
	h.NCCL[name] = value
	return nil
}
