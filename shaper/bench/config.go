// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/ddlemu/ddlemu/shaper/bench/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Clock tells how an iteration is timed.
type Clock int

const (
	// WallClock is nccl-tests' method: CLOCK_MONOTONIC from the first call until the stream is known to be done,
	// over the iterations. A rank sleeps meanwhile, so its wake-up (tens of microseconds in all) is included.
	WallClock Clock = iota
	// DeviceClock is the time between two CUDA events around the iterations: what the stream took, without the
	// wake-up and without the launch of the first.
	DeviceClock
)

// Config says what to measure and how. Collective, Sizes, Ranks, RankBinary, NCCLLibs and CudartLibs are needed.
type Config struct {
	Collective nccl.Collective
	Sizes      []int64         // bytes as asked for, see [Range]
	Types      []nccl.DataType // empty for float
	Ops        []nccl.RedOp    // empty for sum; not looked at by collectives that do not reduce
	Root       int
	Warmup     int // untimed iterations before each measurement; at least one is made, as in nccl-tests
	Iters      int // timed iterations, above 0
	Check      bool
	OutOfPlace bool // measure nothing in place
	Cycles     int  // how often all rows are measured, one after another; 0 is 1
	Ranks      int
	Clock      Clock
	// TimeScale is how many times slower than real the fabric runs; times are divided by it before they are reported.
	// 0 is 1.
	TimeScale float64

	RankBinary string // path of ddlemu-rank
	// NCCLLibs and CudartLibs are paths or sonames for dlopen; the first that loads is used.
	NCCLLibs, CudartLibs []string
	// Env returns what is added to a rank's environment (NAME=value); nil for nothing. The rest is the bench's own,
	// without other launchers' variables, and RANK, LOCAL_RANK and WORLD_SIZE. NCCL_DEBUG and its companions are set
	// only if neither has NCCL_DEBUG; if one has, there are no decisions and no topology to report.
	Env func(rank int) []string
	// User is who the ranks run as; nil for this process's user.
	User *syscall.Credential
	// Device returns the CUDA device of a rank, given how many there are; nil for rank modulo devices.
	Device func(rank, devices int) int
	// Stderr gets what ranks write to standard error, line by line, "rank N: " before each; nil to drop it. It must
	// be safe for use from one goroutine at a time only.
	Stderr io.Writer
	// LogDir is where NCCL's logs stay, one file per rank; empty for a temporary folder that is removed.
	LogDir string
	// StepTimeout is how long a rank may take for one step (all iterations of a measurement); 0 for no limit.
	StepTimeout time.Duration

	// OnStart, if not nil, is called once the communicator is there, before the first row.
	OnStart func(Info)
	// Expected returns the time that one iteration is expected to take on the fabric (not scaled), false if there is
	// none; nil for none at all.
	Expected func(Case) (Expectation, bool)
}

// Expectation is what the fabric's model gives one iteration, not scaled.
type Expectation struct {
	Time time.Duration // the mean over the ranks, as the table has it
	// LastRank is the time until the last rank is done: more than Time where ranks that only send leave the rest to the
	// buffers on the way, as the root of a broadcast does.
	LastRank time.Duration
	// BusiestHop is for how long the busiest hop is occupied: no timing of NCCL's messages is faster for the last rank.
	BusiestHop time.Duration
	// Spread is how far, as a fraction, Time is open either way: what jitter and loss draw, and who of those that are ready at once goes first, is
	// nobody's to say.
	Spread   float64
	Channels int // of NCCL's, that the call uses
}

// Info describes a started run.
type Info struct {
	NCCL               string // version, such as 2.22.3
	NCCLLib, CudartLib string // the libraries as they were named
	Devices            int    // CUDA devices
	DeviceOf           []int  // by rank
	PIDs               []int  // by rank
	// Topology is nil if the user set NCCL_DEBUG, or NCCL's log is not understood: then LogProblem says why.
	Topology   *nccllog.Topology
	LogProblem string
}

// Case identifies one measurement.
type Case struct {
	Collective nccl.Collective
	Type       nccl.DataType
	Op         nccl.RedOp
	Root       int
	Ranks      int
	Size       int64 // bytes, the table's size column
	Count      int64 // elements, the table's count column
	InPlace    bool
	Iters      int // timed iterations, back to back
	Launches   int // all iterations, the untimed ones too
	NCCL       string
	// Decision is what NCCL decided; nil if its log does not tell, and for send and receive.
	Decision *nccllog.Decision
	// Topology is nil if NCCL's log does not tell.
	Topology *nccllog.Topology
	// NICs are those of the connections made so far.
	NICs map[nccllog.Pair]nccllog.NICs
}

func (c *Config) validate() error {
	switch {
	case c.Ranks < 1:
		return fmt.Errorf("the number of ranks is %d; give 1 or more", c.Ranks)
	case c.Iters < 1:
		return fmt.Errorf("the number of iterations is %d; give 1 or more", c.Iters)
	case c.Warmup < 0:
		return fmt.Errorf("the number of warm-up iterations is %d; give 0 or more", c.Warmup)
	case c.Cycles < 0:
		return fmt.Errorf("the number of cycles is %d; give 0 or more", c.Cycles)
	case c.Root < 0 || c.Root >= c.Ranks:
		return fmt.Errorf("the root is rank %d of %d; give 0 to %d", c.Root, c.Ranks, c.Ranks-1)
	case c.TimeScale < 0:
		return fmt.Errorf("the time scale is %g; give a number above 0", c.TimeScale)
	case c.RankBinary == "":
		return errors.New("the path of ddlemu-rank is missing")
	case len(c.NCCLLibs) == 0 || len(c.CudartLibs) == 0:
		return errors.New("the libraries of NCCL and of the CUDA runtime are missing")
	}
	return nil
}
