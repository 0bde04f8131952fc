// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

// Clock selects how an iteration is timed.
type Clock int

const (
	// WallClock is nccl-tests' method: CLOCK_MONOTONIC from the first call until the stream is known to be done,
	// divided by the iterations. A rank sleeps while it waits, so its wake-up (tens of microseconds in all) is
	// included.
	WallClock Clock = iota
	// DeviceClock is the time between two CUDA events around the iterations, without the wake-up and without the
	// launch of the first iteration.
	DeviceClock
)

// Config selects what to measure and how. Collective, Sizes, Ranks, RankBinary, NCCLLibs and CudartLibs are required.
type Config struct {
	Collective nccl.Collective
	Sizes      []int64         // bytes before rounding, see [Range]
	Types      []nccl.DataType // empty for float
	Ops        []nccl.RedOp    // empty for sum; ignored by collectives that do not reduce
	Root       int
	Warmup     int // untimed iterations before each measurement; at least one, as in nccl-tests
	Iters      int // timed iterations, above 0
	Check      bool
	OutOfPlace bool // skip the in-place measurements
	Cycles     int  // number of times that all rows are measured; 0 is 1
	Ranks      int
	Clock      Clock
	// Virtual says that the fabric's clock is virtual: the ranks begin a run together without waiting for a time.
	Virtual bool
	// TimeScale is the time scale of the fabric; times are divided by it before they are reported. 0 is 1.
	TimeScale float64

	RankBinary string // path of ddlemu-rank
	// NCCLLibs and CudartLibs are paths or sonames for dlopen; the first one that loads is used.
	NCCLLibs, CudartLibs []string
	// Env returns additions to a rank's environment (NAME=value); nil for none. The rest is this process's environment
	// without the variables of other launchers, with RANK, LOCAL_RANK and WORLD_SIZE. NCCL_DEBUG and related variables
	// are set only if neither has NCCL_DEBUG; otherwise decisions and topology are not known.
	Env func(rank int) []string
	// User runs the ranks; nil for this process's user.
	User *syscall.Credential
	// Elsewhere returns what starts a rank that does not run here, such as in another container; nil for a rank that
	// does. Elsewhere itself is nil if all ranks run here.
	Elsewhere func(rank int) Starter
	// Device returns the CUDA device of a rank out of the given number; nil for rank modulo devices.
	Device func(rank, devices int) int
	// Given are the user's variables that NCCL uses, as NAME=VALUE. If NCCL fails, the error names them.
	Given []string
	// Stderr receives what ranks write to standard error, line by line after "rank N: "; nil to discard it. It is
	// never used by two goroutines at once.
	Stderr io.Writer
	// LogDir is the folder for NCCL's logs, one file per rank; empty for a temporary folder that is removed.
	LogDir string
	// StepTimeout is the maximum time of a rank for one step (all iterations of a measurement); 0 for no limit.
	StepTimeout time.Duration

	// Planner, if not nil, follows the run and decides how many iterations each row has.
	Planner Planner
	// OnStart, if not nil, is called when the communicator exists, before the first row.
	OnStart func(Info)
	// OnStop, if not nil, is called before the ranks are ended because the context is.
	OnStop func()
	// Expected returns the expected stated time of one iteration on the fabric, false if there is none; nil if there
	// are none at all.
	Expected func(Case) (Expectation, bool)
}

// Expectation is what the fabric's model expects of one iteration. Times are stated times.
type Expectation struct {
	Time time.Duration // mean over the ranks, as in the table
	// LastRank is the time until the last rank is done. It is more than Time if ranks that only send, such as the root
	// of a broadcast, are done while data is still in buffers on the path.
	LastRank time.Duration
	// BusiestHop is the time for which the busiest hop is occupied, a lower bound of LastRank for these messages.
	BusiestHop time.Duration
	// Busiest is that hop; the zero BusyHop if no hop is occupied.
	Busiest BusyHop
	// Spread is the possible deviation of Time in either direction, as a fraction. It has two causes: random jitter and
	// loss, and the unknown order of flows that are ready at the same time.
	Spread   float64
	Channels int   // NCCL's channels that the call uses
	Limit    Limit // of the last rank
	// Extrapolated says that only some of the call's loops or iterations were simulated, because there are many. The
	// rest are assumed to take as long.
	Extrapolated bool
	// Explained is where the time goes, nil if that was not asked for.
	Explained *expect.Explanation
	// Crossed are the hops of the fabric that messages cross.
	Crossed []int
}

// Info describes a started run.
type Info struct {
	NCCL               string // version, such as 2.22.3
	NCCLLib, CudartLib string // the libraries as given in Config
	Devices            int    // CUDA devices
	DeviceOf           []int  // by rank
	PIDs               []int  // by rank
	// Topology is nil if the user set NCCL_DEBUG or if NCCL's log is not understood. LogProblem says which.
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
	Warmup     int  // untimed iterations before them
	Iters      int  // timed iterations, back to back
	Launches   int  // all iterations, including untimed ones
	Try        bool // ask the planner after each untimed iteration
	NCCL       string
	// Decision is NCCL's; nil if its log does not have it, and for send and receive.
	Decision *nccllog.Decision
	// Topology is nil if NCCL's log does not have it.
	Topology *nccllog.Topology
	// NICs are the NICs of the connections made so far.
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
	return c.Collective.CheckRanks(c.Ranks)
}
