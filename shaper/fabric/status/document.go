// SPDX-License-Identifier: Apache-2.0

package status

import (
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Document is a fabric that is up, as JSON: `status`, `up` and `shape` print it with --json, `status --watch` prints it
// in each line, `serve` answers with it. Each has the parts that it knows. Fields may be added, none renamed.
type Document struct {
	*Reading
	*Interval           // of --watch
	Links     []Link    `json:"links,omitzero"` // of --watch those that did something, as the ports
	Ports     []Port    `json:"ports,omitzero"`
	Jobs      []JobView `json:"jobs"`
	LeftOver  string    `json:"left_over,omitempty"` // why no process can use it any more
	Private   string    `json:"private,omitempty"`   // whose it is, if a command or a job made it for itself
	// InForce is the fabric's links and GPUs now, and the differences from its profile.
	InForce *configs.InForce `json:"fabric_in_force,omitempty"`
}

// Interval is the time between two readings.
type Interval struct {
	RealNs int64   `json:"real_ns"`       // real time
	Ns     int64   `json:"interval_ns"`   // of the emulated network; rates are per second of this time
	Ratio  float64 `json:"clock_to_real"` // Ns divided by RealNs
}

// Activity is what a hop did between two readings.
type Activity struct {
	New link.Counters `json:"new"` // what the counters grew by

	RateBps     float64 `json:"rate_bps"`      // payload
	MayCarryBps uint64  `json:"may_carry_bps"` // the rate of the slowest hop of a link's path, 0 = unlimited
	// bytes on the line, headers and framing included, as a share of MayCarryBps
	Load float64 `json:"load"`
	// how long a packet waits now, at the hop of the path where it waits longest; null if it is not known
	QueueNs     *int64   `json:"queue_ns"`
	NewMessages uint64   `json:"new_messages"` // that have arrived
	LatePercent *float64 `json:"late_percent"` // how late these were, of their time together; null if there are none
	LateP99Us   *float64 `json:"late_p99_us"`  // 99 in 100 of them at most; on the kernel datapath, of packets
}

// JobView is a job with what is known of its verdict.
type JobView struct {
	Job
	Judged
	RateBps *float64 `json:"rate_bps,omitempty"` // of what arrived between two readings, of all ranks together
}

// Judged is the verdict on a job so far.
type Judged struct {
	// VALID, INVALID or incomplete; empty if there is nothing to judge yet, or nobody has looked at the lateness
	Verdict string `json:"verdict,omitempty"`
	// why it is not VALID; without a verdict, apart from its measured figures
	Reasons  []string  `json:"reasons"`
	Findings []Finding `json:"findings,omitzero"` // the reasons for INVALID with their causes
}

// Cause says what made a run INVALID.
type Cause string

// Finding is one reason for INVALID.
type Finding struct {
	Cause Cause  `json:"cause"`
	Text  string `json:"text"`
	Link  string `json:"link,omitempty"` // the link that it is about
	Row   string `json:"row,omitempty"`  // the row of a table that it is about
	// Over is the measured figure divided by its limit; 0 if it is not about a figure.
	Over float64 `json:"over,omitempty"`
	// Figure has the figure and its limit in a few words, for the summary.
	Figure string `json:"-"`
	// Slow says that this host was too slow, and that a larger time scale may help.
	Slow bool `json:"-"`
	P99  bool `json:"-"` // Figure is the p99 of the lateness
}
