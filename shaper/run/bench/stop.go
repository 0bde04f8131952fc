// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// quitStep is the step after which a rank exits.
const quitStep = "quit"

// waiting is the state of a step.
type waiting struct {
	step     string
	answers  []message
	answered []bool
	failures []Failure
}

// heard reports whether a rank has answered or failed.
func (w *waiting) heard(rank int) bool {
	return w.answered[rank] || w.failed(rank)
}

func (w *waiting) failed(rank int) bool {
	return slices.ContainsFunc(w.failures, func(f Failure) bool { return f.Rank == rank })
}

func (w *waiting) complete() bool {
	for rank := range w.answered {
		if !w.heard(rank) {
			return false
		}
	}
	return true
}

func (w *waiting) fail(rank int, name, text string) {
	if !w.failed(rank) { // the first failure is the cause of the others
		w.failures = append(w.failures, Failure{Rank: rank, Name: name, Message: text})
	}
}

// handle processes an event during a step.
func (r *Ranks) handle(w *waiting, e event) {
	if e.exited {
		r.exited[e.rank] = true
		if w.step == quitStep && w.answered[e.rank] && e.status == "" {
			return
		}
		text := "it ended with exit status 0 before it was told to"
		if e.status != "" {
			text = "it ended: " + e.status
		}
		w.fail(e.rank, "exit", text)
		return
	}
	m, err := parseMessage(e.line)
	switch {
	case err != nil:
		w.fail(e.rank, "protocol", err.Error())
	case m.verb == "error":
		w.fail(e.rank, m.fields["name"], m.fields["msg"])
	case m.verb == "progress":
		if done, err := m.number("done"); err == nil && r.onProgress != nil {
			r.onProgress(e.rank, int(done))
		}
	case w.answered[e.rank]:
		w.fail(e.rank, "protocol", fmt.Sprintf("a second answer: %q", e.line))
	default:
		w.answered[e.rank] = true
		w.answers[e.rank] = m
	}
}

// order sorts failures by likely cause. A process that ended without an answer causes the errors of others; a remote
// error or no answer is the effect of a failure elsewhere. Events of different ranks come in any order.
func order(f Failure) int {
	switch f.Name {
	case "exit", "plugin":
		return 0
	case "ncclRemoteError", "silent":
		return 2
	}
	return 1
}

// initStep is the name of the step in which NCCL starts.
const initStep = "init"

// A rank says over one pipe that it failed, and over another one why it has no network. So the reason may be read
// after the failure: within firstReason if there is one at all, and within allReasons the reasons of the others.
const (
	firstReason = 100 * time.Millisecond
	allReasons  = time.Second
)

// awaitReasons waits for the reasons of the ranks that failed while NCCL started.
func (r *Ranks) awaitReasons(failures []Failure) {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		known := 0
		for i := range failures {
			if r.processes[failures[i].Rank].stderr.reason() != "" {
				known++
			}
		}
		passed := time.Since(begin)
		if known == len(failures) || passed > allReasons || known == 0 && passed > firstReason {
			return
		}
	}
}

// report makes the error for a step's failures.
func (r *Ranks) report(w *waiting) error {
	if w.step == initStep {
		r.awaitReasons(w.failures)
	}
	for i := range w.failures {
		f := &w.failures[i]
		p := r.processes[f.Rank]
		f.PID = p.child.PID()
		if reason := p.stderr.reason(); reason != "" {
			f.Name, f.Message = "plugin", reason
		}
	}
	slices.SortStableFunc(w.failures, func(a, b Failure) int { return order(a) - order(b) })
	return &RanksError{Step: w.step, Failures: w.failures, Given: r.cfg.Given}
}

// stop ends all ranks: it closes their input, waits until they exit, and kills them after the grace. It returns an
// error if one was killed or did not exit with status 0.
func (r *Ranks) stop(grace time.Duration) error {
	r.closed = true
	if r.beforeEnd != nil {
		r.beforeEnd()
	}
	var first error
	for _, p := range r.processes {
		p.stdin.Close()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	killed := false
	for !r.allGone() {
		select {
		case e := <-r.events:
			if !e.exited {
				continue
			}
			r.exited[e.rank] = true
			if e.status != "" && first == nil {
				first = fmt.Errorf("end rank %d: %s", e.rank, e.status)
			}
		case <-timer.C:
			killed = true
			for rank, p := range r.processes {
				if !r.exited[rank] {
					p.child.Kill()
				}
			}
		}
	}
	if killed {
		first = fmt.Errorf("ranks did not end within %v and were killed", grace)
	}
	if !r.keepLogs {
		r.logLock.Close()
		if err := os.RemoveAll(r.logDir); err != nil && first == nil {
			first = fmt.Errorf("remove NCCL's logs: %w", err)
		}
	}
	return first
}

func (r *Ranks) allGone() bool {
	return !slices.Contains(r.exited[:len(r.processes)], false)
}
