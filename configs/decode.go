// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ddlemu/ddlemu/configs/units"
)

// origins says where each field's value was given: by file and line, flag or
// variable. A field that is missing was inherited.
type origins map[string]string

// place puts the place of the field it is about into err.
func (o origins) place(err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Where = o.of(e.Field)
	}
	return err
}

// of is the origin of field, or of the nearest thing that it is part of.
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

// decoder reads one file and notes the line of every field.
type decoder struct {
	file   string
	origin origins
}

// field is a key of a mapping and what reads its value.
type field struct {
	key  string
	read func(path string, n *yaml.Node) error
}

func decode(file string, data []byte) (*Fabric, origins, error) {
	d := &decoder{file: file, origin: origins{"": file}}
	root, err := d.document(data)
	if err != nil {
		return nil, nil, err
	}
	f, err := d.base(root)
	if err != nil {
		return nil, nil, err
	}
	if err := d.mapping("", root, d.fabric(f)); err != nil {
		return nil, nil, err
	}
	for _, key := range []string{"link.bandwidth", "link.latency"} {
		if baseOf(root) == nil && d.origin[key] == "" {
			return nil, nil, &Error{Where: file, Field: key, Err: errors.New("missing: give it, or name a profile as base")}
		}
	}
	return f, d.origin, nil
}

// document is the top mapping of the only document in data.
func (d *decoder) document(data []byte) (*yaml.Node, error) {
	var doc, more yaml.Node
	y := yaml.NewDecoder(bytes.NewReader(data))
	if err := y.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("is empty: it must hold a fabric, see the examples")
		}
		return nil, &Error{Where: d.file, Err: plainYAMLError(err)}
	}
	switch err := y.Decode(&more); {
	case err == nil:
		return nil, d.errorf("", &more, "a second document: a file holds one fabric")
	case !errors.Is(err, io.EOF):
		return nil, &Error{Where: d.file, Err: plainYAMLError(err)}
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, d.errorf("", &doc, "must hold keys such as nodes: and link:")
	}
	return doc.Content[0], nil
}

// plainYAMLError is the YAML library's error on one line, without its prefix.
func plainYAMLError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	return errors.New("is not YAML: " + strings.Join(strings.Fields(text), " "))
}

// base is the fabric that the file starts from.
func (d *decoder) base(root *yaml.Node) (*Fabric, error) {
	f := Default()
	name, _, _ := strings.Cut(filepath.Base(d.file), ".")
	if validName(name) {
		f.Name = name
	}
	value := baseOf(root)
	if value == nil {
		return &f, nil
	}
	p, err := Profile(value.Value)
	if err != nil {
		return nil, d.errorf("base", value, "%w", err)
	}
	p.Name, p.Description = f.Name, ""
	return p, nil
}

// baseOf is the value of the key base, nil if root has none.
func baseOf(root *yaml.Node) *yaml.Node {
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == "base" {
			return resolve(root.Content[i+1])
		}
	}
	return nil
}

func (d *decoder) fabric(f *Fabric) []field {
	return []field{
		{"base", func(string, *yaml.Node) error { return nil }}, // read first, by base
		{"name", scalar(d, &f.Name, text)},
		{"description", scalar(d, &f.Description, text)},
		{"sources", d.sources(f)},
		{"nodes", scalar(d, &f.Nodes, ParseInt)},
		{"gpus_per_node", scalar(d, &f.GPUsPerNode, positive)},
		{"nics_per_node", scalar(d, &f.NICsPerNode, ParseInt)},
		{"link", func(path string, n *yaml.Node) error { return d.mapping(path, n, d.link(&f.Link)) }},
		{"links", d.links(f)},
		{"transport", d.transport(&f.Transport)},
		{"endpoint", func(path string, n *yaml.Node) error {
			return d.mapping(path, n, []field{
				{"overhead", scalar(d, &f.Endpoint.Overhead, ParseDuration)},
				{"gap", scalar(d, &f.Endpoint.Gap, ParseDuration)},
			})
		}},
		{"jitter_table", d.quantiles(f)},
		{"seed", scalar(d, &f.Seed, ParseSeed)},
		{"time_scale", scalar(d, &f.TimeScale, ParseTimeScale)},
	}
}

func (d *decoder) link(l *Link) []field {
	return []field{
		{"bandwidth", scalar(d, &l.Bandwidth, units.ParseBandwidth)},
		{"latency", scalar(d, &l.Latency, ParseDuration)},
		{"jitter", scalar(d, &l.Jitter, ParseJitter)},
		{"loss", scalar(d, &l.Loss, ParseLoss)},
		{"queue", scalar(d, &l.Queue, ParseQueue)},
		{"mtu", scalar(d, &l.MTU, ParseInt)},
		{"header", scalar(d, &l.Header, ParseInt)},
		{"framing", scalar(d, &l.Framing, ParseInt)},
		{"up", scalar(d, &l.Up, parseBool)},
	}
}

func (d *decoder) override(o *LinkOverride) []field {
	return []field{
		{"match", scalar(d, &o.Match, text)},
		{"bandwidth", optional(d, &o.Bandwidth, units.ParseBandwidth)},
		{"latency", optional(d, &o.Latency, ParseDuration)},
		{"jitter", optional(d, &o.Jitter, ParseJitter)},
		{"loss", optional(d, &o.Loss, ParseLoss)},
		{"queue", optional(d, &o.Queue, ParseQueue)},
		{"mtu", optional(d, &o.MTU, ParseInt)},
		{"header", optional(d, &o.Header, ParseInt)},
		{"framing", optional(d, &o.Framing, ParseInt)},
		{"up", optional(d, &o.Up, parseBool)},
	}
}

// transport reads the kind first: another than the base's brings its defaults.
func (d *decoder) transport(t *Transport) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		n = resolve(n)
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			if n.Content[i].Value == "kind" {
				d.note(path+".kind", n.Content[i+1])
				t.become(resolve(n.Content[i+1]).Value)
			}
		}
		keys := []field{
			{"kind", scalar(d, &t.Kind, text)},
			{"rto", scalar(d, &t.RTO, ParseDuration)},
			{"send_buffer", d.only(TCP, t, scalar(d, &t.SendBuffer, units.ParseSize))},
			{"window", d.only(TCP, t, scalar(d, &t.Window, units.ParseSize))},
			{"timeout", d.only(TCP, t, scalar(d, &t.Timeout, ParseDuration))},
			{"retry_count", d.only(RDMA, t, scalar(d, &t.RetryCount, ParseInt))},
			{"recovery", d.only(RDMA, t, scalar(d, &t.Recovery, text))},
		}
		return d.mapping(path, n, keys)
	}
}

// become makes t of another kind, with that kind's defaults.
func (t *Transport) become(kind string) {
	if kind != t.Kind && (kind == TCP || kind == RDMA) {
		*t = DefaultTransport(kind)
	}
}

// only refuses a field that the other kind of transport has.
func (d *decoder) only(kind string, t *Transport, read func(string, *yaml.Node) error) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		if t.Kind != kind {
			return d.errorf(path, n, "%q given for transport %s: only %s has it", n.Value, t.Kind, kind)
		}
		return read(path, n)
	}
}

func (d *decoder) sources(f *Fabric) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		f.Sources = nil
		return d.sequence(path, n, func(path string, n *yaml.Node) error {
			f.Sources = append(f.Sources, "")
			return scalar(d, &f.Sources[len(f.Sources)-1], text)(path, n)
		})
	}
}

func (d *decoder) links(f *Fabric) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		f.Links = nil
		return d.sequence(path, n, func(path string, n *yaml.Node) error {
			var o LinkOverride
			err := d.mapping(path, n, d.override(&o))
			f.Links = append(f.Links, o)
			return err
		})
	}
}

func (d *decoder) quantiles(f *Fabric) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		f.JitterTable = nil
		return d.sequence(path, n, func(path string, n *yaml.Node) error {
			f.JitterTable = append(f.JitterTable, 0)
			return scalar(d, &f.JitterTable[len(f.JitterTable)-1], parseFloat)(path, n)
		})
	}
}

// mapping reads the keys of n, each at most once and none but fields.
func (d *decoder) mapping(path string, n *yaml.Node, fields []field) error {
	d.note(path, n)
	n = resolve(n)
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.key
	}
	if n.Kind != yaml.MappingNode {
		return d.errorf(path, n, "%s: must hold keys: %s", given(n), strings.Join(names, ", "))
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
			return d.errorf(path, key, "%w", unknown("key here", key.Value, names))
		}
	}
	return nil
}

// sequence reads the elements of n.
func (d *decoder) sequence(path string, n *yaml.Node, read func(string, *yaml.Node) error) error {
	d.note(path, n)
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		return d.errorf(path, n, "%s: must be a list", given(n))
	}
	for i, e := range n.Content {
		if err := read(fmt.Sprintf("%s[%d]", path, i), e); err != nil {
			return err
		}
	}
	return nil
}

// scalar reads one value by its text, as the user wrote it.
func scalar[T any](d *decoder, dst *T, parse func(string) (T, error)) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		d.note(path, n)
		n = resolve(n)
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return d.errorf(path, n, "%s: must be a single value", given(n))
		}
		v, err := parse(n.Value)
		if err != nil {
			return d.errorf(path, n, "%w", err)
		}
		*dst = v
		return nil
	}
}

// optional is scalar for a field that may be absent.
func optional[T any](d *decoder, dst **T, parse func(string) (T, error)) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		*dst = new(T)
		return scalar(d, *dst, parse)(path, n)
	}
}

func (d *decoder) note(path string, n *yaml.Node) {
	if path != "" {
		d.origin[path] = d.at(n)
	}
}

func (d *decoder) at(n *yaml.Node) string { return d.file + ":" + strconv.Itoa(n.Line) }

func (d *decoder) errorf(path string, n *yaml.Node, format string, args ...any) error {
	return &Error{Where: d.at(n), Field: path, Err: fmt.Errorf(format, args...)}
}

// resolve is the node that an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// given describes a value that is of the wrong shape.
func given(n *yaml.Node) string {
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

func text(s string) (string, error) { return s, nil }

// decimalInt is a whole number without the octal, hexadecimal and exponent forms
// that YAML and others read differently.
var decimalInt = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

// ParseInt reads a whole number, 0 or more.
func ParseInt(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || !decimalInt.MatchString(s) {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}

// ParseSeed reads a seed, 0 to 2^64-1.
func ParseSeed(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || !decimalInt.MatchString(s) {
		return 0, fmt.Errorf("%q is not a seed: a whole number from 0 to 18446744073709551615", s)
	}
	return n, nil
}

// ParseTimeScale reads a time scale, 1 to MaxTimeScale, or auto, which is 0.
func ParseTimeScale(s string) (int, error) {
	if s == "auto" {
		return 0, nil
	}
	n, err := ParseInt(s)
	if err != nil || n < 1 || n > MaxTimeScale {
		return 0, fmt.Errorf("%q is not a time scale: must be 1 to %d, or auto", s, MaxTimeScale)
	}
	return n, nil
}

// positive reads a whole number above 0, where 0 stands for not given.
func positive(s string) (int, error) {
	n, err := ParseInt(s)
	if err == nil && n == 0 {
		return 0, fmt.Errorf("%q is out of range: must be 1 to %d", s, MaxGPUsPerNode)
	}
	return n, err
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is not true or false", s)
}

func parseFloat(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return v, nil
}
