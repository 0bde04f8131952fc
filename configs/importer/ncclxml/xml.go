// SPDX-License-Identifier: Apache-2.0

// Package ncclxml reads the topology file of a node that NCCL reads and writes (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE),
// and its graph file (NCCL_GRAPH_DUMP_FILE).
//
// Layout: NCCL 5067397, src/graph/xml.cc, topo.cc and search.cc.
package ncclxml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits of a file. NCCL's own limit is 8192 elements with MNNVL.
const (
	maxElements = 1 << 16
	maxDepth    = 64
)

// element is an element of a file.
type element struct {
	name  string
	attr  map[string]string
	subs  []*element
	above *element
}

// Root returns the name of a file's first element; "" if there is none.
func Root(text string) string {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		t, err := d.RawToken()
		if err != nil {
			return ""
		}
		if e, ok := t.(xml.StartElement); ok {
			return e.Name.Local
		}
	}
}

// parse reads all elements of a file.
func parse(text string) (*element, error) {
	d := xml.NewDecoder(strings.NewReader(text))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // names and numbers are ASCII
	var root, now *element
	for count, depth := 0, 0; ; {
		t, err := d.Token()
		if errors.Is(err, io.EOF) && root != nil {
			return root, nil
		}
		if err != nil {
			line, _ := d.InputPos()
			return nil, fmt.Errorf("line %d: is not whole XML: %s", line,
				strings.TrimPrefix(err.Error(), "XML syntax error on "))
		}
		switch t := t.(type) {
		case xml.StartElement:
			if count, depth = count+1, depth+1; count > maxElements || depth > maxDepth {
				return nil, fmt.Errorf("has more than %d elements, or %d within each other", maxElements, maxDepth)
			}
			e := &element{name: t.Name.Local, attr: map[string]string{}, above: now}
			for _, a := range t.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			switch {
			case now != nil:
				now.subs = append(now.subs, e)
			case root != nil:
				return nil, errors.New("has two elements at the top: it is not one file of NCCL")
			default:
				root = e
			}
			now = e
		case xml.EndElement:
			now = now.above
			depth--
		}
	}
}

// each calls do for each element of a name directly below e.
func (e *element) each(name string, do func(*element)) {
	for _, s := range e.subs {
		if s.name == name {
			do(s)
		}
	}
}

// number is an attribute as a number, or instead if it has none.
func (e *element) number(name string, instead int) (int, error) {
	text, ok := e.attr[name]
	if !ok {
		return instead, nil
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n != int64(int(n)) {
		return 0, fmt.Errorf("<%s %s=%q>: must be a number", e.name, name, text)
	}
	return int(n), nil
}
