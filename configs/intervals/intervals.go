// SPDX-License-Identifier: Apache-2.0

// Package intervals says how far the times of healthy clusters are from the model's times: by kind of GPU, net,
// collective and size.
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

// Class is a class of calls: what decides how well the model knows them.
type Class struct {
	GPU string `json:"gpu,omitempty"` // kind of GPU; "": all kinds
	Net string `json:"net"`           // between the ranks' NVLink domains: NoNet, OwnNet, PluginNet or AnyNet
	// Others says that the calls cross a net, and are neither an all_reduce nor a sendrecv: few tables have them.
	Others bool `json:"others,omitempty"`
}

// Values of Class.Net.
const (
	NoNet     = "none"   // one NVLink domain, or one node
	OwnNet    = "nccl"   // NCCL's own, over InfiniBand, RoCE or sockets
	PluginNet = "plugin" // a plugin's, such as libfabric's on EFA and Slingshot
	AnyNet    = "any"    // of an interval: OwnNet or PluginNet
)

// Interval is how far the times of healthy clusters are from the model's times, for a table that the model does not
// know. Low, High, Alone and Step are measured times divided by the model's times.
type Interval struct {
	Class
	Above  int64   `json:"above"`           // bytes: sizes above this one
	UpTo   int64   `json:"up_to,omitempty"` // up to this one; 0 is no limit
	Tables int     `json:"tables"`          // behind the figures
	Rows   int     `json:"rows"`
	Low    float64 `json:"low"`   // two sizes side by side are faster than this
	High   float64 `json:"high"`  // two sizes side by side are slower than this
	Alone  float64 `json:"alone"` // a single size is slower than this
	Step   float64 `json:"step"`  // several sizes are slower than this, compared with the sizes before and after them
}

// Known says whether there is an interval.
func (i *Interval) Known() bool { return i.Tables > 0 }

// Text says which tables are behind the interval.
func (i *Interval) Text() string {
	of := "all kinds of GPUs"
	if i.GPU != "" {
		of = i.GPU
	}
	net := map[string]string{NoNet: "one node or NVLink domain", OwnNet: "nodes on a net of NCCL's own",
		PluginNet: "nodes on a net of a plugin", AnyNet: "nodes on any net"}[i.Net]
	return fmt.Sprintf("%d tables of %s, %s", i.Tables, of, net)
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

// Find is the first of all, which begin with the narrowest, that is of a class and a size.
func Find(all []Interval, c Class, size int64) Interval {
	for _, i := range all {
		net := i.Net == c.Net || i.Net == AnyNet && c.Net != NoNet
		if net && (i.GPU == "" || i.GPU == c.GPU) && i.Others == c.Others && size > i.Above &&
			(i.UpTo == 0 || size <= i.UpTo) {
			return i
		}
	}
	return Interval{}
}
