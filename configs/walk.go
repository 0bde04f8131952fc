// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// origins has the origin of each field's value: file and line, flag or variable. A field
// without an entry was inherited.
type origins map[string]string

// place sets Where of err to the origin of its field.
func (o origins) place(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Where = o.of(e.Field)
		if e.Where == o[e.Field] && !strings.Contains(e.Where, ":") {
			e.Field = "" // Where is no line of a file, but the flag or variable of this field alone, which names it
		}
	}
	return err
}

// of is the origin of field, or of the innermost mapping or list around it that has one.
func (o origins) of(field string) string {
	for {
		if where, ok := o[field]; ok {
			return where
		}
		cut := strings.LastIndexAny(field, ".[")
		if cut < 0 {
			return o[""]
		}
		field = field[:cut]
	}
}

// decoder reads one file and records the line of every field.
type decoder struct {
	file   string
	origin origins
	what   fileKind

	changes bool // what is read changes a fabric key by key, see Set: its nodes have no lines
}

// fileKind is what a file describes, for messages.
type fileKind struct {
	one     string // what one file holds
	example string // where to look how to write it
	keys    string // some that it has, and what to do with files of other tools
	foreign string // what to do with XML; "" = it is only no YAML
}

var fabricFile = fileKind{one: "fabric", example: "see configs/examples", keys: "nodes: and link:; " + importHelp,
	foreign: "is XML and no fabric file: " + importHelp}

// field is a key of a mapping and the function that reads its value.
type field struct {
	key  string
	read func(path string, n *yaml.Node) error
}

// document is the top mapping of the only document in data.
func (d *decoder) document(data []byte) (*yaml.Node, error) {
	if d.what.foreign != "" && bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")) {
		return nil, &Error{Where: d.file, Err: errors.New(d.what.foreign)}
	}
	var doc, more yaml.Node
	y := yaml.NewDecoder(bytes.NewReader(data))
	if err := y.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil,
				&Error{Where: d.file,
					Err: fmt.Errorf("the file is empty: write a %s into it, %s", d.what.one, d.what.example)}
		}
		return nil, d.notYAML(data, err)
	}
	switch err := y.Decode(&more); {
	case err == nil:
		return nil, d.errorf("", &more, "a second document: a file holds one %s", d.what.one)
	case !errors.Is(err, io.EOF):
		return nil, d.notYAML(data, err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, d.errorf("", &doc, "must hold keys such as %s", d.what.keys)
	}
	root := doc.Content[0]
	for i := 0; i < len(root.Content); i += 2 {
		if slices.Contains(foreignKeys, root.Content[i].Value) {
			return nil, d.errorf(root.Content[i].Value, root.Content[i], "is a key of ASTRA-sim: "+importHelp)
		}
	}
	return root, nil
}

// importHelp is the next step for a file of another tool.
const importHelp = "`ddlemu fabric import` makes a fabric of NCCL's topology of a node, and of networks of SimAI, " +
	"ASTRA-sim and htsim"

// foreignKeys are keys of other tools' networks.
var foreignKeys = []string{"npus_count", "units-count", "logical-dims"}

// Patterns of the YAML library's errors. An error begins with the line, unless it is the
// first line. The library's parser counts lines from 0, its scanner from 1.
var (
	yamlProblem = regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?(.*)$`)
	ofParser    = regexp.MustCompile(
		`^did not find expected (<|key|',' or|'-' indicator|node content)|^found (duplicate|incompatible|undefined)`)
	ofScanner = regexp.MustCompile(`^(did not find|found|could not find|mapping values|block) `)
)

// notYAML is the YAML library's error on one line, with its place.
func (d *decoder) notYAML(data []byte, err error) error {
	m := yamlProblem.FindStringSubmatch(strings.Join(strings.Fields(err.Error()), " "))
	line, _ := strconv.Atoi(m[1]) // 0 if the error has none
	if ofParser.MatchString(m[2]) || line == 0 && ofScanner.MatchString(m[2]) {
		line++
	}
	// An error at the end of the text is reported on the line after the last.
	line = min(line, bytes.Count(bytes.TrimRight(data, "\n"), []byte("\n"))+1)
	where := d.file
	if line > 0 {
		where += ":" + strconv.Itoa(line)
	}
	return &Error{Where: where, Err: errors.New("is not YAML: " + m[2])}
}

// mapping reads the keys of n. It refuses unknown keys and keys that are given twice.
func (d *decoder) mapping(path string, n *yaml.Node, fields []field) error {
	d.note(path, n)
	n = resolve(n)
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.key
	}
	if n.Kind != yaml.MappingNode {
		return d.errorf(path, n, "%s: must hold keys: %s", describe(n), strings.Join(names, ", "))
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := key.Value
		if path != "" {
			at = path + "." + at
		}
		if seen[key.Value] {
			return d.errorf(at, key, "given twice")
		}
		seen[key.Value] = true
		known := false
		for _, f := range fields {
			if f.key != key.Value {
				continue
			}
			known = true
			if err := f.read(at, value); err != nil {
				return err
			}
		}
		if !known {
			return d.errorf(path, key, "%w", Unknown("key here", key.Value, names))
		}
	}
	return nil
}

// section is mapping for a value with these keys.
func (d *decoder) section(fields []field) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error { return d.mapping(path, n, fields) }
}

// sequence reads the elements of n.
func (d *decoder) sequence(path string, n *yaml.Node, read func(string, *yaml.Node) error) error {
	d.note(path, n)
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		return d.errorf(path, n, "%s: must be a list", describe(n))
	}
	for i, e := range n.Content {
		if err := read(fmt.Sprintf("%s[%d]", path, i), e); err != nil {
			return err
		}
	}
	return nil
}

// scalar calls set with the text of one value, as the user wrote it.
func (d *decoder) scalar(set func(text string) error) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		d.note(path, n)
		n = resolve(n)
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return d.errorf(path, n, "%s: must be a single value", describe(n))
		}
		if err := set(n.Value); err != nil {
			return d.errorf(path, n, "%w", err)
		}
		return nil
	}
}

// scalar reads one value.
func scalar[T any](d *decoder, dst *T, parse func(string) (T, error)) func(string, *yaml.Node) error {
	return d.scalar(func(text string) error { return assign(dst, parse, text) })
}

// optional is scalar for a field that is nil if not given.
func optional[T any](d *decoder, dst **T, parse func(string) (T, error)) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		*dst = new(T)
		return scalar(d, *dst, parse)(path, n)
	}
}

func (d *decoder) note(path string, n *yaml.Node) {
	switch {
	case path == "":
	case d.changes:
		d.origin[path] = d.file + " " + path
	default:
		d.origin[path] = d.at(n)
	}
}

func (d *decoder) at(n *yaml.Node) string {
	if d.changes {
		return d.file
	}
	return d.file + ":" + strconv.Itoa(n.Line)
}

func (d *decoder) errorf(path string, n *yaml.Node, format string, args ...any) error {
	return &Error{Where: d.at(n), Field: path, Err: fmt.Errorf(format, args...)}
}

// resolve follows an alias to its node.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// describe names a value of the wrong type.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping was given"
	case n.Kind == yaml.SequenceNode:
		return "a list was given"
	case n.Tag == "!!null":
		return "nothing was given"
	}
	return fmt.Sprintf("%q was given", n.Value)
}
