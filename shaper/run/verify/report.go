// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// Report compares the measurements with what was asked for. Rates are payload bits per second and times us, both of the
// emulated network (real values corrected for the time scale).
type Report struct {
	Fabric    string   `json:"fabric"`
	Profile   string   `json:"profile"`
	Clock     string   `json:"clock"` // real or virtual
	TimeScale int      `json:"time_scale"`
	Seed      uint64   `json:"seed"`
	Links     []Link   `json:"links"`
	Together  *Shared  `json:"together,omitempty"`
	Incast    *Shared  `json:"incast,omitempty"`
	Exact     *Exact   `json:"exact,omitempty"` // only with a virtual clock
	Notes     []string `json:"notes"`
	Seconds   float64  `json:"seconds"`
	Verdict   string   `json:"verdict"` // VALID, INVALID or incomplete
	// Cause and Summary are of INVALID, Reasons the texts of Findings. Conclusion is all of it.
	Cause      verdict.Cause     `json:"cause,omitempty"`
	Summary    string            `json:"summary,omitempty"`
	Reasons    []string          `json:"reasons"`
	Findings   []verdict.Finding `json:"findings"`
	Conclusion verdict.Verdict   `json:"-"`
	// Needed is the time scale at which this host would likely carry the fabric; 0 if the host is not the cause.
	Needed int `json:"time_scale_needed,omitempty"`
	// InForce is what the fabric has in force.
	InForce configs.InForce `json:"fabric_in_force,omitzero"`
}

// finish copies the conclusion to the fields of JSON. took is what the measurement took.
func (r *Report) finish(v verdict.Verdict, took time.Duration) {
	r.Seconds = took.Seconds()
	r.Conclusion, r.Verdict, r.Cause, r.Summary, r.Reasons, r.Findings = v, v.Word, v.Cause, v.Summary, v.Reasons,
		v.Findings
}

// Link is the result for the path from one NIC to another.
type Link struct {
	Name     string   `json:"link"`
	Tries    int      `json:"tries"` // number of measurements
	Rate     Rate     `json:"rate"`
	Latency  Latency  `json:"latency"`
	Jitter   *Jitter  `json:"jitter,omitempty"`
	Loss     *Loss    `json:"loss,omitempty"`
	Problems []string `json:"problems"`
}

// Rate is the result of streams that fill the link.
type Rate struct {
	Asked       float64 `json:"asked_bps"` // payload rate of the narrowest hop; 0 = unlimited
	Model       float64 `json:"model_bps"` // in the model, with transport and losses
	Got         float64 `json:"got_bps"`
	Error       float64 `json:"error_percent"` // of got relative to model
	Limit       float64 `json:"limit_percent"`
	Connections int     `json:"connections"`
	Message     int     `json:"message_bytes"`
	Messages    int     `json:"messages"`
}

// Latency is the result of single messages of 8 bytes.
type Latency struct {
	Asked float64 `json:"asked_us"` // the median with jitter
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	Error float64 `json:"error_us"` // of the median
	// LateP50 and LateP99 are lower bounds of the lateness against the model's time for each message, jitter included:
	// the last poll that did not find the message. SeenP99 is the lateness at which it was seen, which is larger if
	// this process was not running. On the kernel datapath a message is a packet, and its time that at the receiving
	// NIC; with jitter only the distribution is judged there, and LateP50 and LateP99 are 0.
	LateP50 float64 `json:"late_p50_us"`
	LateP99 float64 `json:"late_p99_us"`
	SeenP99 float64 `json:"seen_late_p99_us"`
	// Messages is the number that arrived. P50, P99 and jitter are of the Known ones, whose arrival was observed
	// exactly enough.
	Messages int `json:"messages"`
	Known    int `json:"known_messages"`
	Held     int `json:"held_up_messages"` // delayed by losses, and not evaluated
}

// Jitter compares the distributions of the latencies.
type Jitter struct {
	Quantiles []Quantile `json:"quantiles"`
	Distance  float64    `json:"distance"` // of the distributions (Kolmogorov-Smirnov), beyond the limit for latencies
	Limit     float64    `json:"distance_limit"`
}

// Quantile is the quantile q of both distributions.
type Quantile struct {
	Q     float64 `json:"q"`
	Asked float64 `json:"asked_us"`
	Got   float64 `json:"got_us"`
}

// Loss compares the numbers of lost packets.
type Loss struct {
	Packets uint64  `json:"packets"`      // transmissions, summed over the hops that lose
	Asked   float64 `json:"asked_losses"` // expected number
	Got     uint64  `json:"losses"`
}

// Shared is the result of flows that share hops.
type Shared struct {
	All      bool    `json:"all_pairs"`
	Model    float64 `json:"model_bps"`
	Got      float64 `json:"got_bps"`
	Error    float64 `json:"error_percent"`
	Low      float64 `json:"lowest_flow_error_percent"`
	High     float64 `json:"highest_flow_error_percent"`
	Fairness float64 `json:"fairness"`     // Jain's index of got over model: 1 if all deviate equally
	Judged   bool    `json:"flows_judged"` // whether each flow is judged, not only the sum
	// Only on the kernel datapath: packets lost that should not be, and how late the shaper was.
	Lost     uint64       `json:"packets_lost_unasked,omitempty"`
	Late     string       `json:"shaper_late,omitempty"`
	Tries    int          `json:"tries"`
	Flows    []SharedFlow `json:"flows"`
	Problems []string     `json:"problems"`
}

// SharedFlow is the result of one flow.
type SharedFlow struct {
	Name  string  `json:"link"`
	Model float64 `json:"model_bps"`
	Got   float64 `json:"got_bps"`
	Share float64 `json:"share"` // fraction of the sum
	Error float64 `json:"error_percent"`
}
