// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// NCCL's bootstrap, in ncclCommInitRank, waits on sockets of its own. It waits for ever for a rank that has died or
// failed meanwhile (docs/failures.md). A launcher that watches its ranks ends the others; a shell script that waits for
// all of them does not.

// How long ranks may still be in ncclCommInitRank after a rank of their job is lost.
const (
	// startPatience is for ranks that were there: enough for a launcher to end them itself.
	startPatience = 5 * time.Second
	// latePatience is for those that joined later. A new process may be about to take the place of the lost rank, as
	// after an elastic restart; it may load large libraries first.
	latePatience = time.Minute
	// startPeriod is the time from one look to the next.
	startPeriod = 250 * time.Millisecond
)

// EndIfStuck ends the programs of the job when ranks wait in ncclCommInitRank for a rank that has died or failed.
// report is called before, with the reason. ended says whether that has happened; call it once, it ends the watch.
//
// It does nothing if the ranks are not to fail together (see [TogetherEnv]), or if a death is expected.
func (j *Job) EndIfStuck(report func(why string)) (ended func() bool) {
	if value, given := os.LookupEnv(TogetherEnv); given && value != "1" || len(j.exits) > 0 {
		return func() bool { return false }
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(startPeriod)
		defer tick.Stop()
		var s starts
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if why := s.look(j, state.Now()); why != "" {
				j.stuck.Store(true)
				report(why)
				if _, err := endPrograms(j.id); err != nil {
					report(errors.Join(errors.New("end the job's programs"), err).Error())
				}
				return
			}
		}
	}()
	return func() bool {
		close(stop)
		<-done
		return j.stuck.Load()
	}
}

// starts looks whether ranks of a job's programs wait for ever in ncclCommInitRank. While none is there, it only reads
// memory.
type starts struct {
	watches map[int64]*startWatch // by the time when a program began
	quiet   int64                 // since when none is there, in ns; 0: one was there at the last look
}

// look says why the ranks of one of the programs wait for ever, "" if they do not. now is in ns.
func (s *starts) look(j *Job, now int64) (why string) {
	if !j.file.HasStarting() {
		if s.quiet == 0 {
			s.quiet = now
		}
		return ""
	}
	quiet := s.quiet
	s.quiet = 0
	return s.lookAtAll(j, now, quiet)
}

// lookAtAll is look when a rank is there. What is lost since the time quiet has not been seen yet, if that is not 0.
func (s *starts) lookAtAll(j *Job, now, quiet int64) (why string) {
	j.file.Reap()
	if s.watches == nil {
		s.watches = map[int64]*startWatch{}
	}
	for _, e := range j.file.JobsOf(Key(j.id)) {
		program := e.Summary()
		if !program.Running || program.Stopping {
			continue
		}
		w := s.watches[program.Started]
		if w == nil {
			w = &startWatch{}
			s.watches[program.Started] = w
		} else if quiet != 0 {
			w.unseen = quiet
		}
		l := losses{died: e.Lost(), notEmulated: program.Reasons&state.NotEmulated != 0}
		l.failed, l.failedRank = e.Failed()
		if l.died > 0 {
			l.diedRank = e.LostRank(l.died - 1)
		}
		ranks := j.ranksOf(e)
		if rank, known := missing(ranks); known && rank >= 0 && l == (losses{}) && program.Left == 0 &&
			waitLong(now, ranks) && onlyWait(j.id, processesOf(ranks)) {
			l.absent, l.absentRank = true, rank
		}
		if why := w.look(now, l, ranks); why != "" {
			return why
		}
	}
	return ""
}

// ranksOf are the ranks of a program of the job that live.
func (j *Job) ranksOf(program state.Job) (ranks []state.ParticipantStatus) {
	for _, p := range j.file.Participants() {
		if p.Job == program.Index() && p.Rank != state.DaemonRank && p.Alive {
			ranks = append(ranks, p)
		}
	}
	return ranks
}

// waitLong says whether there are ranks, and all of them have been in ncclCommInitRank for startPatience.
func waitLong(now int64, ranks []state.ParticipantStatus) bool {
	for _, r := range ranks {
		if !r.Starting || time.Duration(now-r.Joined) < startPatience {
			return false
		}
	}
	return len(ranks) > 0
}

func processesOf(ranks []state.ParticipantStatus) map[int]bool {
	pids := map[int]bool{}
	for _, r := range ranks {
		pids[r.PID] = true
	}
	return pids
}

// losses are ranks that others may wait for, in vain.
type losses struct {
	died, failed         int // how many
	diedRank, failedRank int // the last of each
	notEmulated          bool
	absent               bool // a rank has not joined, and no program can start it
	absentRank           int
}

// startWatch looks whether ranks of a job wait for ever in ncclCommInitRank.
type startWatch struct {
	known  losses
	at     int64 // when they were seen first, or could have been
	unseen int64 // since when new ones could not be seen; 0: none could not
}

// look says why a rank waits for ever, "" if none does. now is in ns, ranks are those that live.
func (w *startWatch) look(now int64, l losses, ranks []state.ParticipantStatus) (why string) {
	if l != w.known {
		w.known, w.at = l, cmp.Or(w.unseen, now)
	}
	w.unseen = 0
	if l == (losses{}) || !l.areMissed(ranks) {
		return ""
	}
	for _, r := range ranks {
		since, patience := w.at, startPatience
		if r.Joined > w.at {
			since, patience = r.Joined, latePatience
		}
		if r.Starting && time.Duration(now-since) >= patience {
			return fmt.Sprintf("%s, and rank %d waits for it in ncclCommInitRank, where NCCL waits for ever", l, r.Rank)
		}
	}
	return ""
}

// areMissed says whether some rank of the job has no process. If no variable says how many ranks there are, it looks
// for the lost ones.
func (l losses) areMissed(ranks []state.ParticipantStatus) bool {
	rank, known := missing(ranks)
	if known {
		return rank >= 0
	}
	has := func(rank int) bool {
		return slices.ContainsFunc(ranks, func(r state.ParticipantStatus) bool { return r.Rank == rank })
	}
	return l.died > 0 && !has(l.diedRank) || l.failed > 0 && !has(l.failedRank) || l.notEmulated
}

// missing is the first rank that has no process, -1 if all have one. It is not known if no variable says how many ranks
// there are.
func missing(ranks []state.ParticipantStatus) (rank int, known bool) {
	world, have := 0, map[int]bool{}
	for _, r := range ranks {
		world, have[r.Rank] = max(world, r.World), true
	}
	for rank := range world {
		if !have[rank] {
			return rank, true
		}
	}
	return -1, world > 0
}

func (l losses) String() string {
	switch {
	case l.died > 0:
		return fmt.Sprintf("rank %d died", l.diedRank)
	case l.failed > 0:
		return fmt.Sprintf("rank %d failed", l.failedRank)
	case l.notEmulated:
		return "the plugin of a rank did not start"
	}
	return fmt.Sprintf("rank %d is not there, and no program is left that could start it", l.absentRank)
}
