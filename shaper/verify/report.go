// SPDX-License-Identifier: Apache-2.0

package verify

// Report is what was measured, held to what was asked. Rates are payload bits per
// second and times us of the emulated network: divided by the time scale.
type Report struct {
	Fabric    string   `json:"fabric"`
	Profile   string   `json:"profile"`
	TimeScale int      `json:"time_scale"`
	Seed      uint64   `json:"seed"`
	Links     []Link   `json:"links"`
	Together  *Shared  `json:"together,omitempty"`
	Incast    *Shared  `json:"incast,omitempty"`
	Notes     []string `json:"notes"`
	Seconds   float64  `json:"seconds"`
	Verdict   string   `json:"verdict"` // VALID or INVALID
	Reasons   []string `json:"reasons"`
	// Needed is the time scale at which this host would likely carry the fabric, if that
	// may be what is wrong; 0 if not.
	Needed int `json:"time_scale_needed,omitempty"`
}

// Link is the path from one NIC to another.
type Link struct {
	Name     string   `json:"link"`
	Tries    int      `json:"tries"` // how often it was measured
	Rate     Rate     `json:"rate"`
	Latency  Latency  `json:"latency"`
	Jitter   *Jitter  `json:"jitter,omitempty"`
	Loss     *Loss    `json:"loss,omitempty"`
	Problems []string `json:"problems"`
}

// Rate is that of a stream which fills the link.
type Rate struct {
	Asked       float64 `json:"asked_bps"` // payload rate of the narrowest hop; 0 = unlimited
	Model       float64 `json:"model_bps"` // what the transport and the losses leave of it
	Got         float64 `json:"got_bps"`
	Error       float64 `json:"error_percent"` // of got against model
	Limit       float64 `json:"limit_percent"`
	Connections int     `json:"connections"`
	Message     int     `json:"message_bytes"`
	Messages    int     `json:"messages"`
}

// Latency is that of single messages of 8 bytes.
type Latency struct {
	Asked float64 `json:"asked_us"` // the median with jitter
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	Error float64 `json:"error_us"` // of the median
	// How late messages were against the model's time for each, jitter included: how long
	// after it they were looked for and not there, and when they were seen. The latter is
	// later where this process had no processor. On the kernel datapath the time is that
	// of the packet at the receiving NIC; with jitter only the distribution is judged
	// there, and the first two are 0.
	LateP50 float64 `json:"late_p50_us"`
	LateP99 float64 `json:"late_p99_us"`
	SeenP99 float64 `json:"seen_late_p99_us"`
	// Messages are those that came; P50, P99 and jitter are of the known ones: those that
	// were looked for just before they were there.
	Messages int `json:"messages"`
	Known    int `json:"known_messages"`
	Held     int `json:"held_up_messages"` // by losses: these say nothing of the latency
}

// Jitter is the distribution of the latencies.
type Jitter struct {
	Quantiles []Quantile `json:"quantiles"`
	Distance  float64    `json:"distance"` // between the distributions, beyond the limit for latencies
	Limit     float64    `json:"distance_limit"`
}

// Quantile is one of a distribution.
type Quantile struct {
	Q     float64 `json:"q"`
	Asked float64 `json:"asked_us"`
	Got   float64 `json:"got_us"`
}

// Loss is how many packets were lost on the path.
type Loss struct {
	Packets uint64  `json:"packets"`      // transmissions, on each hop that loses
	Asked   float64 `json:"asked_losses"` // on average
	Got     uint64  `json:"losses"`
}

// Shared is flows that share hops.
type Shared struct {
	All      bool    `json:"all_pairs"`
	Model    float64 `json:"model_bps"`
	Got      float64 `json:"got_bps"`
	Error    float64 `json:"error_percent"`
	Low      float64 `json:"lowest_flow_error_percent"`
	High     float64 `json:"highest_flow_error_percent"`
	Fairness float64 `json:"fairness"`     // Jain's index of got over model: 1 if all are off alike
	Judged   bool    `json:"flows_judged"` // each of the flows, not only what they get together
	// Of the kernel datapath: packets that nobody asked to lose, and what the shaper has
	// against having been on time.
	Lost     uint64       `json:"packets_lost_unasked,omitempty"`
	Late     string       `json:"shaper_late,omitempty"`
	Tries    int          `json:"tries"`
	Flows    []SharedFlow `json:"flows"`
	Problems []string     `json:"problems"`
}

// SharedFlow is one of them.
type SharedFlow struct {
	Name  string  `json:"link"`
	Model float64 `json:"model_bps"`
	Got   float64 `json:"got_bps"`
	Share float64 `json:"share"` // of what all got
	Error float64 `json:"error_percent"`
}
