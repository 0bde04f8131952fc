// SPDX-License-Identifier: Apache-2.0

package play

import (
	"fmt"
	"maps"
	"slices"
)

// jobVariables are NCCL's variables of the job, from the head of its workload. Those of this process's environment come
// before them.
type jobVariables struct {
	had   map[string]string
	given map[string]string        // the values that this process's environment has for them
	other func(name string) string // reads a variable that the job did not have
}

func newJobVariables(had map[string]string, lookup func(name string) (string, bool),
	other func(name string) string) jobVariables {
	v := jobVariables{had: had, given: map[string]string{}, other: other}
	for name := range had {
		if value, set := lookup(name); set {
			v.given[name] = value
		}
	}
	return v
}

// env are those that this process's environment does not have, as NAME=VALUE.
func (v *jobVariables) env() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(v.had)) {
		if _, set := v.given[name]; !set {
			out = append(out, name+"="+v.had[name])
		}
	}
	return out
}

// get is a variable as the ranks have it.
func (v *jobVariables) get(name string) string {
	if _, set := v.given[name]; !set {
		if value, ok := v.had[name]; ok {
			return value
		}
	}
	return v.other(name)
}

// VariableNotes say which values the ranks have of NCCL's variables of the job.
func (f *Facts) VariableNotes() []string {
	v := &f.variables
	var out []string
	for _, name := range slices.Sorted(maps.Keys(v.had)) {
		if value, set := v.given[name]; set {
			out = append(out, fmt.Sprintf("%s=%s, from the environment; the job had %s", name, value, v.had[name]))
		} else {
			out = append(out, fmt.Sprintf("%s=%s, as the job had it", name, v.had[name]))
		}
	}
	return out
}
