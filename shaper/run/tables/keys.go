// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Launches: how nccl-tests starts the ranks.
const (
	Processes = "processes"  // a process per rank, or per RanksPerProcess ranks
	Threads   = "threads"    // a process per node, with a thread per rank
	OneThread = "one-thread" // a process per node, with one thread for all its ranks
)

// Cluster is what a table says of the system that it was measured on. "" and 0: it does not say.
type Cluster struct {
	GPU             string // a kind of GPU that ships with ddlemu
	NVLink          string // configs.SwitchedNVLink, MeshNVLink or NoNVLink
	NVLinkDomain    int    // GPUs in one NVLink domain, if it spans nodes
	GPUsPerNode     int    // that the job used
	NICsPerNode     int    // that a node has
	Fabric          string // a profile, or words if there is none
	NCCL            string // version as far as it is known
	CPU             string // vendor: configs.AMD or Intel
	Net             string // NCCL's net, such as ib
	Launch          string // Processes, Threads or OneThread
	RanksPerProcess int
}

// key is a key of a table's head.
type key struct {
	name string
	set  func(t *Table, value string) error
}

// keys returns the keys of a table's head.
func keys() []key {
	return []key{
		{"source", text(func(t *Table) *string { return &t.Source })},
		{"system", text(func(t *Table) *string { return &t.System })},
		{"collective", func(t *Table, v string) (err error) {
			t.Collective, err = nccl.ParseCollective(v)
			return err
		}},
		{"ranks", number(2, maxRanks, func(t *Table) *int { return &t.Ranks })},
		{"nodes", number(1, configs.MaxNodes, func(t *Table) *int { return &t.Nodes })},
		{"gpus_per_node", number(1, configs.MaxGPUsPerNode, func(t *Table) *int { return &t.GPUsPerNode })},
		{"nics_per_node", number(1, configs.MaxNICs, func(t *Table) *int { return &t.NICsPerNode })},
		{"gpu", (*Table).setGPU},
		{"nvlink", func(t *Table, v string) (err error) {
			t.NVLink, err = configs.ParseNVLink(v)
			return err
		}},
		{"nvlink_domain", number(2, configs.MaxNVLinkDomain, func(t *Table) *int { return &t.NVLinkDomain })},
		{"fabric", text(func(t *Table) *string { return &t.Fabric })},
		{"nccl", text(func(t *Table) *string { return &t.NCCL })},
		{"env", (*Table).setEnv},
		{"type", (*Table).setType},
		{"launch", oneOf("launch", func(t *Table) *string { return &t.Launch }, Processes, Threads, OneThread)},
		{"ranks_per_process", number(1, configs.MaxGPUsPerNode, func(t *Table) *int { return &t.RanksPerProcess })},
		{"cpu", oneOf("vendor of CPUs", func(t *Table) *string { return &t.CPU }, configs.AMD, configs.Intel)},
		{"net", text(func(t *Table) *string { return &t.Net })},
	}
}

func keyNames() (names []string) {
	for _, k := range keys() {
		names = append(names, k.name)
	}
	return names
}

// set sets a key of the head.
func (t *Table) set(name, value string) error {
	all := keys()
	i := slices.IndexFunc(all, func(k key) bool { return k.name == name })
	if i < 0 {
		return configs.Unknown("key of a table", name, keyNames())
	}
	if err := all[i].set(t, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// setKeys sets the keys that lines of a log have.
func (t *Table) setKeys(log []byte) error {
	n, names := 0, keyNames()
	for line := range bytes.Lines(log) {
		n++
		for _, name := range names {
			if value, ok := bytes.CutPrefix(line, []byte("# "+name+":")); ok {
				if err := t.set(name, strings.TrimSpace(string(value))); err != nil {
					return fmt.Errorf("line %d: %w", n, err)
				}
			}
		}
	}
	return nil
}

func text(field func(*Table) *string) func(*Table, string) error {
	return func(t *Table, value string) error { *field(t) = value; return nil }
}

func number(low, high int, field func(*Table) *int) func(*Table, string) error {
	return func(t *Table, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q is not a number from %d to %d", value, low, high)
		}
		*field(t) = n
		return nil
	}
}

func oneOf(what string, field func(*Table) *string, names ...string) func(*Table, string) error {
	return func(t *Table, value string) error {
		if !slices.Contains(names, value) {
			return configs.Unknown(what, value, names)
		}
		*field(t) = value
		return nil
	}
}

func (t *Table) setGPU(value string) error {
	if !slices.Contains(configs.GPUNames(), value) {
		return configs.Unknown("kind of GPU", value, configs.GPUNames())
	}
	t.GPU = value
	return nil
}

func (t *Table) setType(value string) error {
	types, err := nccl.ParseDataTypes(value)
	if err != nil {
		return err
	}
	if len(types) > 1 {
		return errors.New("all: give the type of the rows")
	}
	t.Type = types[0]
	return nil
}

// variables are the variables that a table may set for the ranks: variables of NCCL's decisions, and none that reads or
// writes files.
var variables = []string{
	"NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
	"NCCL_CROSS_NIC", "NCCL_NVLS_ENABLE", "NCCL_NVLS_NCHANNELS", "NCCL_COLLNET_ENABLE", "NCCL_PXN_DISABLE",
	"NCCL_P2P_PXN_LEVEL", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_NET_GDR_LEVEL",
	"NCCL_NET_GDR_READ", "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS", "NCCL_NCHANNELS_PER_PEER",
	"NCCL_NCHANNELS_PER_NET_PEER", "NCCL_NTHREADS", "NCCL_LL128_NTHREADS", "NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE",
	"NCCL_LL128_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE",
}

// otherVariables are the beginnings of names of variables of nets that the fabric stands for. They are read, and not
// set: the net here is another one.
var otherVariables = []string{"NCCL_IB_", "NCCL_SOCKET_", "OFI_NCCL_", "FI_", "UCX_"}

func (t *Table) setEnv(value string) error {
	for _, v := range strings.Fields(value) {
		name, _, ok := strings.Cut(v, "=")
		begins := func(with string) bool { return strings.HasPrefix(name, with) }
		switch {
		case ok && slices.Contains(variables, name):
			t.Env = append(t.Env, v)
		case ok && slices.ContainsFunc(otherVariables, begins):
			t.Unused = append(t.Unused, v)
		default:
			return fmt.Errorf("%q is not one of %s with a value", v, strings.Join(variables, ", "))
		}
	}
	return nil
}

// take takes the variables of a log that the table does not have yet. Unlike variables of a table's head, none is
// refused: a log has whatever the job had.
func (t *Table) take(settings []string) {
	for _, v := range settings {
		name, _, _ := strings.Cut(v, "=")
		has := func(of string) bool { return strings.HasPrefix(of, name+"=") }
		switch {
		case strings.HasPrefix(name, "NCCL_DEBUG"), slices.ContainsFunc(t.Env, has), slices.ContainsFunc(t.Unused, has):
		case t.setEnv(v) != nil:
			t.Others = append(t.Others, v)
		}
	}
}

// complete checks that the table says what it must, and sets what it need not say.
func (t *Table) complete() error {
	switch {
	case t.Collective < 0:
		return errors.New("the table does not say \"# collective: NAME\": add that line before it")
	case t.Ranks == 0:
		return errors.New("the table does not say \"# ranks: N\": add that line before it")
	case t.Nodes == 0 && t.GPUsPerNode > 0:
		t.Nodes = (t.Ranks + t.GPUsPerNode - 1) / t.GPUsPerNode
	case t.Nodes == 0:
		t.Nodes = t.Ranks
	}
	if t.Ranks%t.Nodes != 0 {
		return fmt.Errorf("%d ranks do not divide among %d nodes", t.Ranks, t.Nodes)
	}
	gpus := t.Ranks / t.Nodes
	if t.GPUsPerNode != 0 && t.GPUsPerNode != gpus {
		return fmt.Errorf("%d ranks on %d nodes are %d per node, gpus_per_node is %d", t.Ranks, t.Nodes, gpus,
			t.GPUsPerNode)
	}
	t.GPUsPerNode, t.Launch = gpus, cmp.Or(t.Launch, Processes)
	perProcess := 1
	if t.Launch != Processes {
		perProcess = gpus
	}
	t.RanksPerProcess = cmp.Or(t.RanksPerProcess, perProcess)
	if gpus%t.RanksPerProcess != 0 {
		return fmt.Errorf("ranks_per_process: %d: the %d ranks of a node do not divide among such processes",
			t.RanksPerProcess, gpus)
	}
	return t.Collective.CheckRanks(t.Ranks)
}
