// SPDX-License-Identifier: Apache-2.0

// Package watch says what a fabric that is up does now. It compares two samples of the counters in the fabric's file.
// It only reads the file and acquires none of its locks, so ranks never wait for it.
package watch

import (
	"errors"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// ErrGone is the error for a fabric that was taken down, or whose file was removed.
var ErrGone = errors.New("was taken down")

// Sample is a fabric at one moment, and the verdicts on its jobs so far.
type Sample struct {
	*status.Reading
	Verdicts []status.Judged // by job
}

// Reader samples a fabric. It is not safe for concurrent use.
type Reader struct {
	file     *state.File
	onKernel bool
	reader   *status.Reader
	over     map[status.JobID]status.Judged // on jobs that had ended at the last sample, which do not change any more
}

// NewReader makes a reader of a fabric, which stays open as long as the reader is used.
func NewReader(file *state.File) (*Reader, error) {
	fab, err := fabricfile.Read(file)
	if err != nil {
		return nil, err
	}
	r := &Reader{file: file, onKernel: fab.Config.OnKernel(), reader: status.NewReader(file, fab),
		over: map[status.JobID]status.Judged{}}
	r.reader.FindPaths()
	return r, nil
}

// Sample reads the fabric. The error wraps ErrGone if the fabric is not up any more.
func (r *Reader) Sample() (*Sample, error) {
	if r.file.Down() || r.file.Removed() {
		return nil, fmt.Errorf("fabric %s %w", r.file.Name(), ErrGone)
	}
	r.waitCounted()
	l := &Sample{Reading: r.reader.Read()}
	over := map[status.JobID]status.Judged{}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		v, known := r.over[j.ID()]
		if !known {
			v = judge(l.Reading, j)
		}
		if !j.Running {
			over[j.ID()] = v
		}
		l.Verdicts = append(l.Verdicts, v)
	}
	r.over = over
	return l, nil
}

// waitCounted waits, on the kernel datapath, until the packets of all jobs that have just ended are counted.
func (r *Reader) waitCounted() {
	if !r.onKernel {
		return
	}
	for _, j := range r.file.Jobs() {
		if _, known := r.over[status.JobID{Number: j.Index(), Started: j.Started()}]; !known {
			j.WaitCounted()
		}
	}
}

func judge(f *status.Reading, j *status.Job) status.Judged {
	if j.Traffic || j.Verify {
		return status.Judged{Reasons: []string{}}
	}
	v := verdict.OfStatus(f, j)
	so := status.Judged{Reasons: append([]string{}, v.Reasons...)}
	if !v.Valid || len(v.Links) > 0 {
		so.Verdict = v.Word
	}
	return so
}

// lateness is how late messages were; on the kernel datapath, packets. Times are real ones in ns.
type lateness struct {
	late, took int64 // sums over all messages; took is 0 if it is not known
	most       int64
	buckets    [state.LateBuckets]uint32
}

// addSince adds to l what came to now after then, an earlier one of the same; nil is one of nothing.
func (l *lateness) addSince(now, then *state.LinkStats) {
	if then == nil {
		then = &state.LinkStats{}
	}
	b, a := now.Total(), then.Total()
	l.late, l.took, l.most = l.late+b.SumLate-a.SumLate, l.took+b.SumTime-a.SumTime, max(l.most, b.MaxLate)
	for k := range b.Late {
		l.buckets[k] += b.Late[k] - a.Late[k]
	}
}

// p99 is an upper bound of the lateness of 99 in 100 messages. ok is false if there is no message.
func (l *lateness) p99() (late int64, ok bool) { return state.Quantile(&l.buckets, 0.99, l.most) }
