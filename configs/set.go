// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Set is a key of a fabric file and its value, as a user gave them with --set KEY=VALUE. The key is a path, such as
// topology.kind. The value is YAML, so that it can be a list or a mapping. A Set without a key has all keys of the file
// that Value names, as a user gave them with --set @FILE.
type Set struct{ Key, Value string }

// SetFlag is the flag of a Set, without the dashes.
const SetFlag = "set"

// ParseSet reads KEY=VALUE or @FILE. It checks neither the key nor the value, and does not read the file.
func ParseSet(text string) (Set, error) {
	if file, ok := strings.CutPrefix(text, "@"); ok {
		return Set{Value: file}, nil
	}
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return Set{}, fmt.Errorf("%q is not KEY=VALUE, such as link.loss=0.1%%, or @FILE", text)
	}
	return Set{key, value}, nil
}

// SettingOf returns the setting of a key of a fabric file, nil if it is none.
func SettingOf(key string) *Setting {
	if key == "transport.kind" {
		key = "transport"
	}
	for i := range settings {
		if settings[i].Field == key {
			return &settings[i]
		}
	}
	return nil
}

// Keys are the keys that a Set can have, each once: the settings', then the others of a fabric file's top.
func Keys() (keys []string) {
	var f Fabric
	tops := map[string]bool{}
	for _, s := range settings {
		top, _, _ := strings.Cut(s.Field, ".")
		tops[top] = true
		keys = append(keys, s.Field)
	}
	for _, k := range (&decoder{}).fabric(&f) {
		if !tops[k.key] && k.key != "base" {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// applySets changes f by the files and then the keys in sets, as a file that has f as its base.
func applySets(f *Fabric, origin origins, sets []Set) error {
	if len(sets) == 0 {
		return nil
	}
	for _, s := range sets {
		if s.Key != "" {
			continue
		}
		if err := applyFile(f, origin, s.Value); err != nil {
			return err
		}
	}
	d := &decoder{file: "--" + SetFlag, origin: origin, what: fabricFile, changes: true}
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range sets {
		switch s.Key {
		case "":
			continue // a file
		case "base":
			return &Error{Where: d.file, Err: errBase}
		}
		if err := insert(root, s); err != nil {
			return &Error{Where: d.file, Err: err}
		}
	}
	return d.mapping("", root, d.fabric(f))
}

// errBase is the error for a base in a place that has none.
var errBase = errors.New("base: only a file has a base: give --profile")

// applyFile changes f by the keys of a file.
func applyFile(f *Fabric, origin origins, name string) error {
	data, err := readFile(name, "file", "name a file with keys of a fabric file")
	if err != nil {
		return &Error{Where: "--" + SetFlag, Err: err}
	}
	d := &decoder{file: name, origin: origin, what: fabricFile}
	root, err := d.document(data)
	if err != nil {
		return err
	}
	if baseOf(root) != nil {
		return &Error{Where: name, Err: errBase}
	}
	return d.mapping("", root, d.fabric(f))
}

// insert adds a value to a mapping, and the mappings around it that it needs.
func insert(root *yaml.Node, s Set) error {
	value, err := s.node()
	if err != nil {
		return err
	}
	parts := strings.Split(s.Key, ".")
	for _, part := range parts[:len(parts)-1] {
		next := valueOf(root, part)
		if next == nil {
			next = &yaml.Node{Kind: yaml.MappingNode}
			root.Content = append(root.Content, nameNode(part), next)
		}
		if next.Kind != yaml.MappingNode {
			return fmt.Errorf("%s: %s is given too: give one of them", s.Key, part)
		}
		root = next
	}
	last := parts[len(parts)-1]
	if valueOf(root, last) != nil {
		return fmt.Errorf("%s: given twice, or with a key below it: give one of them", s.Key)
	}
	root.Content = append(root.Content, nameNode(last), value)
	return nil
}

func nameNode(name string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: name} }

// node is the value as YAML. A text that is no list and no mapping is taken as it is: it may have a colon or a "#".
func (s Set) node() (*yaml.Node, error) {
	if !strings.HasPrefix(s.Value, "[") && !strings.HasPrefix(s.Value, "{") {
		return nameNode(s.Value), nil
	}
	var doc, more yaml.Node
	y := yaml.NewDecoder(bytes.NewReader([]byte(s.Value)))
	if err := y.Decode(&doc); err != nil || !errors.Is(y.Decode(&more), io.EOF) {
		return nil, fmt.Errorf("%s: %q is not one list or mapping of YAML, such as [a, b] or {a: b}", s.Key, s.Value)
	}
	return doc.Content[0], nil
}
