// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"encoding/json"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// json reads a dump as JSON.
func (r *reader) json(in *input.Reader, d *Dump) error {
	j := in.JSON()
	known := false
	err := j.Object(func(key string) error {
		switch key {
		case "version":
			return j.Decode(&d.Version)
		case "nccl_version", "comm_lib_version", "xccl_version":
			return j.Decode(&d.Library)
		case "rank":
			return j.Decode(&d.Rank)
		case "pg_config":
			known = true
			return jsonGroups(j, d)
		case "entries":
			known = true
			return j.Array(func() error {
				var rec record
				if err := j.Decode(&rec); err != nil {
					if !input.IsWrongType(err) {
						return err
					}
					rec.wrongTypes = true
				}
				return r.add(d, &rec)
			})
		}
		return j.Skip()
	})
	if err == nil && !known {
		err = fmt.Errorf("%s: %w", d.File, errNoDump)
	}
	return err
}

// jsonGroups reads pg_config.
func jsonGroups(j *input.JSON, d *Dump) error {
	return j.Object(func(name string) error {
		var value json.RawMessage
		if err := j.Decode(&value); err != nil {
			return err
		}
		var config struct {
			Desc  string          `json:"desc"`
			Ranks json.RawMessage `json:"ranks"`
		}
		if json.Unmarshal(value, &config) != nil {
			config.Ranks = value // before version 2 the ranks alone
		}
		var list string
		if json.Unmarshal(config.Ranks, &list) != nil {
			list = string(config.Ranks)
		}
		d.addGroup(name, config.Desc, pytorch.ParseRanks(list, -1, 0, 0))
		return nil
	})
}

// addGroup adds a process group that the dump lists. gloo of PyTorch 2.15 lists groups before they have a name.
func (d *Dump) addGroup(name, desc string, ranks workload.Ranks) {
	if name != "" && len(ranks) > 0 && distinct(ranks) {
		d.Groups[name] = GroupConfig{Desc: desc, Ranks: ranks}
	}
}

func distinct(ranks workload.Ranks) bool {
	seen := make(map[int]bool, len(ranks))
	for _, r := range ranks {
		if seen[r] {
			return false
		}
		seen[r] = true
	}
	return true
}
