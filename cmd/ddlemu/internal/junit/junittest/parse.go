// SPDX-License-Identifier: Apache-2.0

// Package junittest reads JUnit XML for tests, and holds it to the rules of the schemas in common use: which elements
// and attributes there are, in which order, and of which type. It shares nothing with the package that writes them.
package junittest

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Report is a document.
type Report struct{ Suites []Suite }

// Suite is a testsuite element.
type Suite struct {
	Name, Timestamp                  string
	Tests, Failures, Errors, Skipped int
	Time                             float64
	Properties                       map[string]string
	Cases                            []Case
	Out                              string
}

// Case is a testcase element. Kind is "", failure, error or skipped; Type, Message and Text are of that element.
type Case struct {
	Name, Class               string
	Time                      float64
	Kind, Type, Message, Text string
}

// element is what both schemas allow of an element.
type element struct {
	required, optional []string // attributes
	children           []string // in this order, each as often as it likes unless it is in single
	single             []string
	text               bool
}

var rules = map[string]element{
	"testsuites": {children: []string{"testsuite"}},
	"testsuite": {
		required: []string{"id", "package", "name", "timestamp", "hostname", "tests", "failures", "errors", "time"},
		optional: []string{"skipped"},
		children: []string{"properties", "testcase", "system-out", "system-err"},
		single:   []string{"properties", "system-out", "system-err"},
	},
	"properties": {children: []string{"property"}},
	"property":   {required: []string{"name", "value"}},
	"testcase": {required: []string{"classname", "name", "time"}, children: []string{"skipped", "error", "failure"},
		single: []string{"skipped", "error", "failure"}},
	"skipped":    {optional: []string{"message"}},
	"error":      {required: []string{"type"}, optional: []string{"message"}, text: true},
	"failure":    {required: []string{"type"}, optional: []string{"message"}, text: true},
	"system-out": {text: true},
	"system-err": {text: true},
}

var (
	decimal = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	millis  = regexp.MustCompile(`^[0-9]+(\.[0-9]{1,3})?$`)
	count   = regexp.MustCompile(`^[0-9]+$`)
	instant = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}$`)
	types   = map[string]*regexp.Regexp{
		"time": decimal, "tests": count, "failures": count, "errors": count, "skipped": count, "id": count,
		"timestamp": instant,
	}
)

// node is an element as it was read.
type node struct {
	name     string
	attrs    map[string]string
	children []*node
	text     strings.Builder
}

// Parse reads a document, and fails the test where it breaks a rule.
func Parse(t *testing.T, document string) (r Report) {
	t.Helper()
	root := read(t, document)
	if root.name != "testsuites" {
		t.Fatalf("the root is %s", root.name)
	}
	root.check(t)
	for _, n := range root.children {
		r.Suites = append(r.Suites, n.suite(t))
	}
	return r
}

func read(t *testing.T, document string) *node {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(document))
	top := &node{}
	stack := []*node{top}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		parent := stack[len(stack)-1]
		switch x := token.(type) {
		case xml.StartElement:
			n := &node{name: x.Name.Local, attrs: map[string]string{}}
			for _, a := range x.Attr {
				n.attrs[a.Name.Local] = a.Value
			}
			parent.children, stack = append(parent.children, n), append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			parent.text.Write(x)
		}
	}
	if len(top.children) != 1 {
		t.Fatalf("%d roots", len(top.children))
	}
	return top.children[0]
}

// check checks n and all below it.
func (n *node) check(t *testing.T) {
	t.Helper()
	rule, ok := rules[n.name]
	if !ok {
		t.Fatalf("there is no element %s", n.name)
	}
	for _, name := range rule.required {
		if _, ok := n.attrs[name]; !ok {
			t.Errorf("%s has no %s", n.name, name)
		}
	}
	for name, value := range n.attrs {
		if !slices.Contains(rule.required, name) && !slices.Contains(rule.optional, name) {
			t.Errorf("%s has %s", n.name, name)
		}
		if n.name == "testsuite" && name == "time" && !millis.MatchString(value) {
			t.Errorf("%s: %s is %q", n.name, name, value)
		}
		if of := types[name]; of != nil && !of.MatchString(value) {
			t.Errorf("%s: %s is %q", n.name, name, value)
		}
	}
	if text := strings.TrimSpace(n.text.String()); text != "" && !rule.text {
		t.Errorf("%s has the text %q", n.name, text)
	}
	last := 0
	for i, c := range n.children {
		at := slices.Index(rule.children, c.name)
		if at < last || i > 0 && n.children[i-1].name == c.name && slices.Contains(rule.single, c.name) {
			t.Errorf("%s is not allowed at this place of %s", c.name, n.name)
		}
		last = max(at, last)
		c.check(t)
	}
	if n.name == "testcase" && len(n.children) > 1 {
		t.Errorf("a testcase has %d results", len(n.children))
	}
}

func (n *node) number(t *testing.T, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(n.attrs[name], 64)
	if err != nil {
		t.Errorf("%s: %s is %q", n.name, name, n.attrs[name])
	}
	return v
}

// suite reads a testsuite, whose counts must be the counts of its cases.
func (n *node) suite(t *testing.T) Suite {
	t.Helper()
	s := Suite{Name: n.attrs["name"], Timestamp: n.attrs["timestamp"], Time: n.number(t, "time"),
		Properties: map[string]string{}}
	s.Tests, s.Failures, s.Errors, s.Skipped = int(n.number(t, "tests")), int(n.number(t, "failures")),
		int(n.number(t, "errors")), int(n.number(t, "skipped"))
	counts := map[string]int{}
	for _, c := range n.children {
		switch c.name {
		case "properties":
			for _, p := range c.children {
				s.Properties[p.attrs["name"]] = p.attrs["value"]
			}
		case "system-out":
			s.Out = c.text.String()
		case "testcase":
			one := Case{Name: c.attrs["name"], Class: c.attrs["classname"], Time: c.number(t, "time")}
			for _, r := range c.children {
				one.Kind, one.Type, one.Message, one.Text = r.name, r.attrs["type"], r.attrs["message"], r.text.String()
			}
			counts[one.Kind]++
			s.Cases = append(s.Cases, one)
		}
	}
	if s.Tests != len(s.Cases) || s.Failures != counts["failure"] || s.Errors != counts["error"] ||
		s.Skipped != counts["skipped"] {
		t.Errorf("%d tests, %d failures, %d errors, %d skipped, but the cases are %v", s.Tests, s.Failures, s.Errors,
			s.Skipped, counts)
	}
	return s
}
