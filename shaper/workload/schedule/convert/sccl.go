// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
)

// algorithm is what SCCL and TACCL write. Chunks are divided in the maps and in the steps, not always in the
// collective.
type algorithm struct {
	Collective struct {
		Name    string `json:"name"`         // such as Allgather(n=8),chunks=2
		Runtime string `json:"runtime_name"` // SCCL's, custom for many
		Nodes   int    `json:"nodes"`
		Chunks  []struct {
			Addr int `json:"addr"`
		} `json:"chunks"`
	} `json:"collective"`
	Inputs   map[string][]int `json:"input_map"` // addresses by rank
	Outputs  map[string][]int `json:"output_map"`
	Instance struct {
		Pipeline *int `json:"pipeline"`
	} `json:"instance"`
	Steps []struct {
		Sends []scclSend `json:"sends"`
	} `json:"steps"`
}

// scclSend is [address, source, destination], in TACCL also with the time, the link, and what the receiver does: null,
// or rrc to add.
type scclSend mk.Send

func (s *scclSend) UnmarshalJSON(data []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) < 3 || len(parts) > 6 {
		return fmt.Errorf(
			"a send of %d parts: must be address, source and destination, and may be time, link and operation",
			len(parts))
	}
	for i, to := range []*int{&s.Address, &s.Src, &s.Dst} {
		if err := json.Unmarshal(parts[i], to); err != nil {
			return fmt.Errorf("a send: %w", err)
		}
	}
	if len(parts) < 6 {
		return nil
	}
	switch string(parts[5]) {
	case "null":
		s.Effect = mk.Store
	case `"rrc"`:
		s.Effect = mk.Add
	default:
		return fmt.Errorf("a send with the operation %s: must be null or \"rrc\"", parts[5])
	}
	return nil
}

// readSCCL reads an algorithm of SCCL or TACCL.
func readSCCL(data []byte) (*schedule.Schedule, error) {
	var a algorithm
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, err
	}
	n := a.Collective.Nodes
	switch {
	case len(a.Collective.Chunks) == 0:
		return nil, errors.New("the algorithm has no collective with chunks")
	case n < 2 || n > mk.MaxGPUs:
		return nil, fmt.Errorf("%d nodes: must be 2 to %d", n, mk.MaxGPUs)
	case a.Instance.Pipeline != nil:
		return nil, errors.New("a pipelined algorithm, whose steps overlap: only those without pipeline are read")
	}
	t := &mk.Transfers{Coll: a.coll(), Adds: a.combines()}
	var err error
	if t.Inputs, err = sorted("input_map", a.Inputs, n); err != nil {
		return nil, err
	}
	if t.Outputs, err = sorted("output_map", a.Outputs, n); err != nil {
		return nil, err
	}
	for _, st := range a.Steps {
		var sends []mk.Send
		for _, s := range st.Sends {
			sends = append(sends, mk.Send(s))
		}
		t.Steps = append(t.Steps, sends)
	}
	s, err := mk.FromSends("sccl", t)
	if err == nil && !s.Coll.HasResult() {
		s.Warnings = append(s.Warnings,
			fmt.Sprintf("collective %q is taken for custom: its result is what output_map says", a.Collective.Name))
	}
	return s, err
}

// coll is the collective. SCCL's runtime names are custom for rooted collectives, and after chunks were divided.
func (a *algorithm) coll() schedule.Collective {
	name, _, _ := strings.Cut(a.Collective.Name, "(")
	for _, text := range []string{a.Collective.Runtime, name} {
		if c, err := schedule.ParseCollective(text); err == nil && c.HasResult() {
			return c
		}
	}
	return schedule.Custom
}

// combines says whether several chunks have one address: then they are added up.
func (a *algorithm) combines() bool {
	seen := map[int]bool{}
	for _, c := range a.Collective.Chunks {
		if seen[c.Addr] {
			return true
		}
		seen[c.Addr] = true
	}
	return false
}

// sorted are the addresses of the ranks' buffers: their chunks are in the order of the addresses.
func sorted(name string, of map[string][]int, ranks int) ([][]int, error) {
	out := make([][]int, ranks)
	for key, addresses := range of {
		r, err := strconv.Atoi(key)
		if err != nil || r < 0 || r >= ranks {
			return nil, fmt.Errorf("%s has rank %q: must be 0 to %d", name, key, ranks-1)
		}
		out[r] = slices.Sorted(slices.Values(addresses))
	}
	return out, nil
}
