// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/run/host"
)

const (
	// reportGrace is the time that the other ranks have to report their errors after one has failed: enough for a
	// transport to notice a dead peer and for the rank to see the error.
	reportGrace = 2500 * time.Millisecond
	// closeGrace is the time that a rank has to exit when asked: it aborts its communicator for at most a second.
	closeGrace = 2 * time.Second
	// updateEvery is the time from one update of the planner to the next, while timed iterations run.
	updateEvery = time.Second
	// quitGrace is the time that a healthy rank has to unload its libraries.
	quitGrace = 10 * time.Second

	// Open files of this process: those for a rank are its pipes and its pidfd. Measured: 18 with 2 ranks, 74 with 16.
	ownDescriptors, rankDescriptors = 16, 4
)

// Ranks are the processes of a run. It is not safe for concurrent use, Close included. After a step has failed all
// ranks have ended, and every later step returns the same error.
type Ranks struct {
	cfg       Config
	processes []*process
	events    chan event
	logs      []*logFile
	made      map[string]*madeComm // communicators by name
	updates   bool                 // the planner is updated in the present step
	// onProgress is called with how many operations of a program have ended; nil for none.
	onProgress func(rank, done int)
	// beforeEnd is called before the ranks are ended, nil for nothing: calls that are aborted seem to end, too.
	beforeEnd func()
	logDir    string
	logLock   *os.File // marks a temporary folder as in use, see makeLogDir
	keepLogs  bool
	hello     []message
	devices   int
	failed    error
	closed    bool
	exited    []bool
}

// lockedWriter is a writer that the goroutines of several ranks share.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// StartRanks starts the processes and waits until each has loaded its libraries. Call Close in the end, except after an
// error.
func StartRanks(ctx context.Context, cfg Config) (*Ranks, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := host.CheckDescriptors(ownDescriptors + rankDescriptors*cfg.Ranks); err != nil {
		return nil, err
	}
	r := &Ranks{cfg: cfg, events: make(chan event, 4*cfg.Ranks), exited: make([]bool, cfg.Ranks)}
	if cfg.Stderr != nil {
		r.cfg.Stderr = &lockedWriter{w: cfg.Stderr}
	}
	r.logDir, r.keepLogs = cfg.LogDir, cfg.LogDir != ""
	if r.logDir == "" {
		var err error
		if r.logDir, r.logLock, err = makeLogDir(); err != nil {
			return nil, err
		}
		if cfg.User != nil { // the caller is responsible for a folder that it named
			if err := r.logLock.Chown(int(cfg.User.Uid), int(cfg.User.Gid)); err != nil {
				return nil, fmt.Errorf("give the folder for NCCL's logs to the ranks' user: %w", err)
			}
		}
	} else if err := os.MkdirAll(r.logDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for NCCL's logs: %w", err)
	}
	if err := r.spawn(); err != nil {
		r.stop(closeGrace)
		return nil, err
	}
	hello, err := r.await(ctx, "start")
	if err != nil {
		r.stop(closeGrace)
		return nil, err
	}
	r.hello = hello
	if err := r.checkHello(); err != nil {
		r.stop(closeGrace)
		return nil, err
	}
	return r, nil
}

// spawn starts all processes from one thread and keeps that thread until they have ended. A rank asks the kernel to be
// killed with its parent, and for the kernel the parent is the thread that started it.
func (r *Ranks) spawn() error {
	var args []string
	for _, lib := range r.cfg.CudartLibs {
		args = append(args, "--cudart", lib)
	}
	for _, lib := range r.cfg.NCCLLibs {
		args = append(args, "--nccl", lib)
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		for rank := 0; rank < r.cfg.Ranks && err == nil; rank++ {
			err = r.spawnOne(rank, args)
		}
		mine := slices.Clone(r.processes)
		started <- err
		for _, p := range mine {
			<-p.gone
		}
	}()
	return <-started
}

func (r *Ranks) spawnOne(rank int, args []string) error {
	var extra []string
	if r.cfg.Env != nil {
		extra = r.cfg.Env(rank)
	}
	env, logPath := rankEnv(os.Environ(), extra, rank, r.cfg.Ranks, r.logDir)
	command := Command{Rank: rank, Path: r.cfg.RankBinary, Args: args, Env: env, User: r.cfg.User}
	start := Starter(startHere)
	if r.cfg.Elsewhere != nil {
		if there := r.cfg.Elsewhere(rank); there != nil {
			start = there
			if err := command.passLog(logPath); err != nil {
				return err
			}
			defer command.Log.Close() // nil is no error that matters
		}
	}
	p, err := startProcess(command, start, r.cfg.Stderr, r.events)
	if err != nil {
		return err
	}
	r.processes = append(r.processes, p)
	r.logs = append(r.logs, &logFile{path: logPath})
	return nil
}

func (r *Ranks) checkHello() error {
	for rank, m := range r.hello {
		protocol, err := m.number("protocol")
		if err != nil || protocol != protocolVersion {
			return fmt.Errorf("rank %d speaks protocol %q, this program %d: build both from the same source", rank,
				m.fields["protocol"], protocolVersion)
		}
	}
	devices, err := r.hello[0].number("devices")
	if err != nil {
		return err
	}
	if devices < 1 {
		return errors.New("there is no CUDA device; see `nvidia-smi`, or use the software CUDA")
	}
	r.devices = int(devices)
	return nil
}

// PIDs returns the process ids by rank.
func (r *Ranks) PIDs() []int {
	pids := make([]int, len(r.processes))
	for i, p := range r.processes {
		pids[i] = p.child.PID()
	}
	return pids
}

// step sends a command to each rank and waits for all answers.
func (r *Ranks) step(ctx context.Context, name string, command func(rank int) string) ([]message, error) {
	if r.failed != nil {
		return nil, r.failed
	}
	if r.closed {
		return nil, errors.New("the ranks have been closed")
	}
	for _, p := range r.processes {
		p.send(command(p.rank))
	}
	return r.await(ctx, name)
}

// all returns the same command for each rank.
func all(command string) func(int) string { return func(int) string { return command } }

// await reads one line from each rank. After an error it gives the other ranks time to report theirs, then ends all.
func (r *Ranks) await(ctx context.Context, name string) ([]message, error) {
	w := &waiting{step: name, answers: make([]message, len(r.processes)), answered: make([]bool, len(r.processes))}
	limit, grace := r.cfg.StepTimeout, false
	var timeout <-chan time.Time
	if limit > 0 {
		timeout = time.After(limit)
	}
	var update <-chan time.Time
	if r.updates {
		ticker := time.NewTicker(updateEvery)
		defer ticker.Stop()
		update = ticker.C
	}
	for !w.complete() {
		select {
		case <-update:
			r.cfg.planner().Update()
		case e := <-r.events:
			r.handle(w, e)
			if len(w.failures) > 0 && !grace {
				limit, grace = reportGrace, true
				timeout = time.After(limit)
			}
		case <-timeout:
			for rank := range r.processes {
				if !w.heard(rank) {
					w.fail(rank, "silent", fmt.Sprintf("no answer within %v", limit))
				}
			}
		case <-ctx.Done():
			r.failed = fmt.Errorf("%s: %w", name, context.Cause(ctx))
			if r.cfg.OnStop != nil {
				r.cfg.OnStop()
			}
			r.stop(closeGrace)
			return nil, r.failed
		}
	}
	if len(w.failures) == 0 {
		return w.answers, nil
	}
	r.failed = r.report(w)
	r.stop(closeGrace)
	return nil, r.failed
}

// errNoLog says why a communicator is not known.
var errNoLog = errors.New("NCCL_DEBUG is set, so NCCL's log is not read; unset it to get algorithms and expected times")

// version is the version of NCCL, such as 2.22.3.
func (r *Ranks) version() string {
	code, _ := r.hello[0].number("version")
	return nccl.VersionText(int(code))
}

// Info describes the ranks. Before Init it has no topology.
func (r *Ranks) Info() Info {
	info := Info{
		NCCL: r.version(), NCCLLib: r.hello[0].path("nccl"), CudartLib: r.hello[0].path("cudart"),
		Devices: r.devices, PIDs: r.PIDs(),
	}
	for rank := range r.processes {
		info.DeviceOf = append(info.DeviceOf, r.device(rank))
	}
	if r.logs[0].path == "" {
		info.LogProblem = errNoLog.Error()
		return info
	}
	topology, err := nccllog.Combine(r.comms())
	if err != nil {
		info.LogProblem = err.Error()
		return info
	}
	info.Topology = topology
	return info
}

func (r *Ranks) device(rank int) int {
	if r.cfg.Device != nil {
		return r.cfg.Device(rank, r.devices)
	}
	return rank % r.devices
}

// comms returns each rank's newest communicator, nil if its log has none.
func (r *Ranks) comms() []*nccllog.Comm {
	comms := make([]*nccllog.Comm, len(r.logs))
	for i, l := range r.logs {
		comms[i] = l.Comm()
	}
	return comms
}

// Transports counts the communicator's connections so far, see [nccllog.Transports].
func (r *Ranks) Transports() map[string]int { return nccllog.Transports(r.comms()) }

func (r *Ranks) pollLogs() error {
	var errs []error
	for _, l := range r.logs {
		errs = append(errs, l.poll())
	}
	return errors.Join(errs...)
}

// Init makes a communicator of all ranks.
func (r *Ranks) Init(ctx context.Context) error { return r.InitComm(ctx, r.world()) }

// Destroy destroys all communicators (ncclCommDestroy). Init may follow.
func (r *Ranks) Destroy(ctx context.Context) error {
	r.made = nil
	_, err := r.step(ctx, "destroy", all("destroy"))
	return err
}

// Close ends the ranks. It returns an error if one of them did not exit with status 0. After a failed step it does
// nothing and returns nil.
func (r *Ranks) Close() error {
	if r.closed || r.failed != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), quitGrace)
	defer cancel()
	if _, err := r.step(ctx, quitStep, all("quit")); err != nil {
		return err
	}
	return r.stop(quitGrace)
}
