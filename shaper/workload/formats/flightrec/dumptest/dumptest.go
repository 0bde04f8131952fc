// SPDX-License-Identifier: Apache-2.0

// Package dumptest writes dumps of PyTorch's flight recorder for tests, as FlightRecorderDetail.hpp of PyTorch 2.15
// does for NCCL, as JSON.
package dumptest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// Dump is the dump of one rank.
type Dump struct {
	rank    int
	first   int               // record_id of the first entry
	groups  map[string]string // ranks by name
	entries []map[string]any
}

// New returns the dump of a rank without calls; groups are names, each followed by its ranks, such as "0", "[0, 1]".
func New(rank int, groups ...string) *Dump {
	d := &Dump{rank: rank, groups: map[string]string{}}
	for i := 0; i < len(groups); i += 2 {
		d.groups[groups[i]] = groups[i+1]
	}
	return d
}

// Overwritten lets the recorder have overwritten n calls before the first one that is added.
func (d *Dump) Overwritten(n int) *Dump {
	d.first = n
	return d
}

// Call adds a completed call of float elements, such as "all_reduce" or "send 0->1", with the numbers of the
// collective and of sends and receives. in and out are sizes of tensors. A call is made 1 ms after the one before.
func (d *Dump) Call(group, name string, coll, p2p int, in, out [][]int) *Dump {
	types := func(sizes [][]int) []string { return slices.Repeat([]string{"Float"}, len(sizes)) }
	n := d.first + len(d.entries)
	op, _, _ := strings.Cut(name, " ")
	d.entries = append(d.entries, map[string]any{
		"record_id": n, "pg_id": 0, "process_group": []string{group, "desc" + group}, "collective_seq_id": coll,
		"p2p_seq_id": p2p,
		"op_id":      n, "profiling_name": "nccl:" +
			name, "time_created_ns": 1_700_000_000_000_000_000 + int64(n)*1_000_000,
		"input_sizes": in, "input_dtypes": types(in), "output_sizes": out, "output_dtypes": types(out),
		"state":                      "completed",
		"time_discovered_started_ns": 0, "time_discovered_completed_ns": 0, "retired": true, "timeout_ms": 600000,
		"is_p2p": op == "send" || op == "recv",
	})
	return d
}

// Set changes a field of the last call.
func (d *Dump) Set(key string, value any) *Dump {
	d.entries[len(d.entries)-1][key] = value
	return d
}

// Running lets the last call not have ended.
func (d *Dump) Running() *Dump { return d.Set("state", "started").Set("retired", false) }

// File is the file of the dump. Its name ends with the rank.
func (d *Dump) File() input.File {
	config := map[string]any{}
	for name, ranks := range d.groups {
		config[name] = map[string]string{"name": name, "desc": "desc" + name, "ranks": ranks}
	}
	dump := map[string]any{"version": "2.10", "nccl_version": "2.27.5", "pg_config": config,
		"pg_status": map[string]any{}}
	if len(d.entries) > 0 {
		dump["entries"] = d.entries
	}
	data, err := json.Marshal(dump)
	if err != nil {
		panic(err)
	}
	return input.Bytes(fmt.Sprintf("nccl_trace_rank_%d", d.rank), data)
}

// Files are the files of dumps.
func Files(dumps ...*Dump) (out []input.File) {
	for _, d := range dumps {
		out = append(out, d.File())
	}
	return out
}
