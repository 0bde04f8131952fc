// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Setting is a setting of a fabric that differs. A or B is "" if that fabric does not have it.
type Setting struct {
	Name string `json:"setting"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Settings compares two fabric files.
func Settings(a, b []byte) ([]Setting, error) {
	var flat [2]map[string]string
	for i, text := range [][]byte{a, b} {
		var tree any
		if err := yaml.Unmarshal(text, &tree); err != nil {
			return nil, fmt.Errorf("read a fabric: %w", err)
		}
		flat[i] = map[string]string{}
		if fields, ok := tree.(map[string]any); ok { // where the figures are from is long, and changes nothing
			delete(fields, "sources")
			delete(fields, "fitted_to")
		}
		flatten(flat[i], "", tree)
	}
	var names []string
	for _, all := range flat {
		names = slices.AppendSeq(names, maps.Keys(all))
	}
	slices.Sort(names)
	out := []Setting{}
	for _, name := range slices.Compact(names) {
		a, b := flat[0][name], flat[1][name]
		if name == "gpus_per_node" && (a == "" || b == "") {
			continue // without it, the ranks that join say how many there are
		}
		if a != b {
			out = append(out, Setting{name, a, b})
		}
	}
	return out, nil
}

// flatten puts the leaves of a tree into all, named by their paths.
func flatten(all map[string]string, path string, tree any) {
	switch x := tree.(type) {
	case map[string]any:
		for name, sub := range x {
			if path != "" {
				name = path + "." + name
			}
			flatten(all, name, sub)
		}
	case []any:
		for i, sub := range x {
			flatten(all, fmt.Sprintf("%s[%d]", path, i), sub)
		}
	case nil:
	default:
		all[path] = fmt.Sprint(x)
	}
}
