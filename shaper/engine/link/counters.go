// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// Counters are what a hop has carried: struct ddlemu_counters of link.h. Those of times are int64 and in ns, all others
// uint64. The tags are all that commands know of a counter; `ddlemu status`, `top`, `serve` and `metrics` show each:
//
//	json    its name in JSON; "-": no command shows it
//	metric  its name for Prometheus, without prefix and unit, if that is not the one in JSON
//	column  the head of its column; `status` and `top` have the column if one is above 0. Without it, tables have a
//	        column of their own or none
//	help    what it counts
type Counters struct {
	Bytes     uint64 `json:"bytes" metric:"transmit_bytes" help:"Payload, each transmission counted."`
	LineBytes uint64 `json:"wire_bytes" help:"Bytes on the line: payload, headers and framing."`
	Segments  uint64 `json:"-"` // and packets retransmitted
	Drops     uint64 `json:"drops" help:"Packets lost or dropped."`
	BusyNs    int64  `json:"busy_ns" help:"Time for which it was occupied."`
	ECNMarks  uint64 `json:"ecn_marked" column:"ECN marks" help:"Packets that found more than the ECN threshold ahead of them."`
	Pauses    uint64 `json:"pauses" column:"pauses" help:"Times that back-pressure delayed it."`
	PausedNs  int64  `json:"paused_ns" column:"paused for" help:"Time by which back-pressure delayed it."`
}

// Counter is one of the Counters that commands show, see there.
type Counter struct {
	Name   string `json:"name"`
	Metric string `json:"-"` // with its unit, a second for times
	Column string `json:"label"`
	Help   string `json:"help"`
	Time   bool   `json:"time"`
	place  int    // in Counters
}

var shown = func() (all []Counter) {
	for i, f := range reflect.VisibleFields(reflect.TypeFor[Counters]()) {
		c := Counter{Name: f.Tag.Get("json"), Metric: f.Tag.Get("metric"), Column: f.Tag.Get("column"),
			Help: f.Tag.Get("help"), place: i}
		if c.Name == "-" {
			continue
		}
		if c.Metric == "" {
			c.Metric = c.Name
		}
		if c.Time = f.Type.Kind() == reflect.Int64; c.Time {
			c.Metric = strings.TrimSuffix(c.Metric, "_ns") + "_seconds"
		}
		c.Metric += "_total"
		all = append(all, c)
	}
	return all
}()

// ShownCounters are the counters that commands show, which must not be changed.
func ShownCounters() []Counter { return shown }

// WithColumn returns the counters that have a column and are not 0 in every element.
func WithColumn[T any](all []T, of func(*T) *Counters) (columns []Counter) {
	for _, c := range shown {
		for i := range all {
			if c.Column != "" && c.Of(of(&all[i])) != 0 {
				columns = append(columns, c)
				break
			}
		}
	}
	return columns
}

// Of is the value of the counter; of a time in ns.
func (n *Counter) Of(c *Counters) uint64 { return c.words()[n.place] }

// Value is the value in the unit of the metric.
func (n *Counter) Value(c *Counters) float64 {
	if n.Time {
		return float64(n.Of(c)) / 1e9
	}
	return float64(n.Of(c))
}

// Text is the value for people.
func (n *Counter) Text(c *Counters) string {
	v := n.Of(c)
	if n.Time && v > 0 {
		return time.Duration(v).Round(time.Microsecond).String()
	}
	return fmt.Sprint(v)
}

// Stated is c with its times divided by the time scale.
func (c Counters) Stated(timeScale int) Counters {
	for i := range shown {
		if shown[i].Time {
			c.words()[shown[i].place] /= uint64(timeScale)
		}
	}
	return c
}

// Since is how much the counters have grown since the earlier o, 0 where a reader of another process saw less.
func (c Counters) Since(o Counters) Counters {
	now, then := c.words(), o.words()
	for i := range now {
		now[i] = max(now[i], then[i]) - then[i]
	}
	return c
}

// Load reads counters that others change.
func (c *Counters) Load() (v Counters) {
	from, to := c.words(), v.words()
	for i := range from {
		to[i] = atomic.LoadUint64(&from[i])
	}
	return v
}

// Add adds to counters that others change.
func (c *Counters) Add(v Counters) {
	to, from := c.words(), v.words()
	for i := range from {
		if from[i] != 0 {
			atomic.AddUint64(&to[i], from[i])
		}
	}
}

func (c *Counters) words() []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(c)), unsafe.Sizeof(*c)/8)
}
