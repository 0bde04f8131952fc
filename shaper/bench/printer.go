// SPDX-License-Identifier: Apache-2.0

package bench

// Header is what a run's output says first.
type Header struct {
	Collective string
	NCCL       string  // version
	NCCLLib    string  // the library as it was named
	CUDA       string  // "soft" or "gpu"
	Profile    string  // or the fabric file
	Datapath   string  // such as shm
	TimeScale  float64 // times in the output are already divided by it
	Ranks      int
	Nodes      int
	Warmup     int
	Iters      int
	Check      bool
	// Notes are printed one per line with the header.
	Notes []string
}

// NewHeader fills a header with what cfg and info tell. CUDA, Profile, Datapath and Notes are the caller's, and so is
// Nodes where NCCL's log does not tell it.
func NewHeader(cfg Config, info Info) Header {
	h := Header{
		Collective: cfg.Collective.String(), NCCL: info.NCCL, NCCLLib: info.NCCLLib, TimeScale: cfg.TimeScale,
		Ranks: cfg.Ranks, Warmup: cfg.Warmup, Iters: cfg.Iters, Check: cfg.Check,
	}
	if h.TimeScale == 0 {
		h.TimeScale = 1
	}
	if info.Topology != nil {
		h.Nodes = info.Topology.Nodes
	}
	return h
}

// NewSummary fills a summary.
func NewSummary(r Result, verdict string, reasons, notes []string) Summary {
	return Summary{Wrong: r.Wrong(), AvgBusBW: r.AvgBusBW(), Verdict: verdict, Reasons: reasons, Notes: notes}
}

// Summary is what a run's output says last.
type Summary struct {
	Wrong    int64   // elements, of all rows
	AvgBusBW float64 // GB/s
	Verdict  string  // VALID or INVALID
	Reasons  []string
	Notes    []string // what to know of the figures
}

// Printer writes a run's output: Begin once, Row as each row is done, End once. Each returns the writer's error.
type Printer interface {
	Begin(Header) error
	Row(Row) error
	End(Summary) error
}
