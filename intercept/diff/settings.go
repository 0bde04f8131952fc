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
		var document yaml.Node
		if err := yaml.Unmarshal(text, &document); err != nil {
			return nil, fmt.Errorf("read a fabric: %w", err)
		}
		flat[i] = map[string]string{}
		for _, tree := range document.Content {
			if err := flatten(flat[i], "", tree); err != nil {
				return nil, err
			}
		}
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

// flatten puts the leaves of a tree into all, named by their paths, but for where the figures are from, which is long
// and changes nothing.
func flatten(all map[string]string, path string, tree *yaml.Node) error {
	switch tree.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(tree.Content); i += 2 {
			name := tree.Content[i].Value
			if path == "" && (name == "sources" || name == "fitted_to") {
				continue
			}
			if path != "" {
				name = path + "." + name
			}
			if err := flatten(all, name, tree.Content[i+1]); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		for i, sub := range tree.Content {
			if err := flatten(all, fmt.Sprintf("%s[%d]", path, i), sub); err != nil {
				return err
			}
		}
	case yaml.AliasNode: // it could stand for a tree of any size
		return fmt.Errorf("read a fabric: line %d: an alias: ddlemu writes none, so the file was changed", tree.Line)
	default:
		if tree.Tag != "!!null" {
			all[path] = tree.Value
		}
	}
	return nil
}
