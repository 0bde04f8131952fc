// SPDX-License-Identifier: Apache-2.0

// Package intervals says how far the times of healthy clusters are from the model's times: by kind of GPU, nodes and
// size.
package intervals

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

// intervals.json is written by `ddlemu validate --all --model --intervals` (docs/validation.md).
//
//go:embed intervals.json
var intervalFile []byte

// Interval is how far the times of healthy clusters are from the model's times: what is expected of a table that the
// model does not know. Low, High and Alone are measured times over the model's times.
type Interval struct {
	GPU    string  `json:"gpu,omitempty"`   // kind of GPU; "": all kinds
	Nodes  string  `json:"nodes,omitempty"` // OneNode or SeveralNodes; "": both
	Above  int64   `json:"above"`           // bytes: sizes above this one
	UpTo   int64   `json:"up_to,omitempty"` // up to this one; 0 is no limit
	Tables int     `json:"tables"`          // behind the figures
	Rows   int     `json:"rows"`
	Low    float64 `json:"low"`   // two sizes side by side are faster than this
	High   float64 `json:"high"`  // two sizes side by side are slower than this
	Alone  float64 `json:"alone"` // a single size is slower than this
}

// Values of Interval.Nodes.
const (
	OneNode      = "one"
	SeveralNodes = "several"
)

// Known says whether there is an interval.
func (i *Interval) Known() bool { return i.Tables > 0 }

// Text says which tables are behind the interval.
func (i *Interval) Text() string {
	of := "all kinds of GPUs"
	if i.GPU != "" {
		of = i.GPU
	}
	switch i.Nodes {
	case OneNode:
		of += ", one node"
	case SeveralNodes:
		of += ", several nodes"
	}
	return fmt.Sprintf("%d tables of %s", i.Tables, of)
}

// NodesOf is the value of Interval.Nodes for so many nodes.
func NodesOf(nodes int) string {
	if nodes > 1 {
		return SeveralNodes
	}
	return OneNode
}

var readIntervals = sync.OnceValues(func() ([]Interval, error) {
	var all []Interval
	d := json.NewDecoder(bytes.NewReader(intervalFile))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("read intervals.json: %w", err)
	}
	return all, nil
})

// All are the intervals that ship with ddlemu, the narrowest class first.
func All() ([]Interval, error) { return readIntervals() }

// Find is the first of all, which begin with the narrowest, that is of the kind of GPU, of the nodes and of the
// size.
func Find(all []Interval, gpu string, nodes int, size int64) Interval {
	for _, i := range all {
		if (i.GPU == "" || i.GPU == gpu) && (i.Nodes == "" || i.Nodes == NodesOf(nodes)) && size > i.Above &&
			(i.UpTo == 0 || size <= i.UpTo) {
			return i
		}
	}
	return Interval{}
}
