// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Span is when an operation of a program ran, in ns of real or virtual time since the program began. The ranks begin
// together.
type Span struct {
	// Ready is when the operation's stream had come to it, and the operations before it had ended.
	Ready int64
	End   int64
}

// NotEnded is the End of an operation that has not ended, because the program was stopped.
const NotEnded = -1

// Program is what a rank plays.
type Program struct {
	// Write writes the operations of a rank in the format of cuda/rank/program.h.
	Write func(rank int, out io.Writer) error
	// Ops are the operations of a rank, without those in groups.
	Ops func(rank int) int
	// Progress, if not nil, is called now and then with how many operations of a rank have ended.
	Progress func(rank, done int)
}

// Played is what a rank played.
type Played struct {
	Spans []Span
	// Begin is the time of the rank's clock at which its program began, and End is when all of it had ended, since
	// then.
	Begin, End int64
	// Checked and Wrong are numbers of elements. Mismatch describes the first wrong one, of operation WrongOp.
	Checked, Wrong int64
	WrongOp        int
	Mismatch       string
}

// Play makes the ranks play a program on the communicators that exist. On the real clock computation takes the
// configured time scale times as long as the program says. If it is stopped, what the ranks have played comes with the
// error: the End of an operation that has not ended is NotEnded.
func (r *Ranks) Play(ctx context.Context, p Program) ([]Played, error) {
	for rank := range r.processes {
		if err := r.writeProgram(rank, p); err != nil {
			return nil, err
		}
	}
	_, err := r.step(ctx, "load",
		func(rank int) string { return "load program=" + escapePath(r.file(rank, "program")) })
	if err != nil {
		return nil, err
	}
	start := r.commonStart()
	scale := cmp.Or(r.cfg.TimeScale, 1)
	r.onProgress = p.Progress
	var partly []Played
	r.beforeEnd = func() { partly = r.partly(start) }
	answers, err := r.step(ctx, "play", func(rank int) string {
		return fmt.Sprintf("play times=%s scale=%g start=%d", escapePath(r.file(rank, "times")), scale, start)
	})
	r.onProgress, r.beforeEnd = nil, nil
	if err != nil {
		return partly, err
	}
	all := make([]Played, len(answers))
	for rank, m := range answers {
		if all[rank], err = r.played(rank, m, p.Ops(rank), start); err != nil {
			return nil, err
		}
	}
	return all, r.pollLogs()
}

// file is the path of a rank's file, beside its log.
func (r *Ranks) file(rank int, kind string) string {
	return filepath.Join(r.logDir, fmt.Sprintf("rank%d.%s", rank, kind))
}

// escapePath writes a path as a value of the protocol.
func escapePath(path string) string {
	return strings.NewReplacer("%", "%25", " ", "%20").Replace(path)
}

func (r *Ranks) writeProgram(rank int, p Program) (err error) {
	if err := os.Remove(r.file(rank, "times")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the times of rank %d: %w", rank, err)
	}
	f, err := os.Create(r.file(rank, "program"))
	if err != nil {
		return fmt.Errorf("write the program of rank %d: %w", rank, err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("write the program of rank %d: %w", rank, cerr)
		}
	}()
	out := bufio.NewWriter(f)
	if err := p.Write(rank, out); err != nil {
		return fmt.Errorf("write the program of rank %d: %w", rank, err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the program of rank %d: %w", rank, err)
	}
	return nil
}

// commonStart is the time at which the ranks begin, soon; 0 on a virtual clock, which stands still until all have
// begun. It collects garbage, so that this process does not use the cores of the ranks during the run.
func (r *Ranks) commonStart() int64 {
	if r.cfg.Virtual {
		return 0
	}
	runtime.GC()
	return state.Now() + startLead.Nanoseconds()
}

// played reads what a rank played. The spans begin at start, or if that is 0 at the rank's own begin.
func (r *Ranks) played(rank int, m message, ops int, start int64) (Played, error) {
	var p Played
	var op int64
	for key, to := range map[string]*int64{"begin": &p.Begin, "end": &p.End, "checked": &p.Checked, "wrong": &p.Wrong,
		"op": &op} {
		var err error
		if *to, err = m.number(key); err != nil {
			return p, err
		}
	}
	p.WrongOp = int(op)
	if p.Wrong > 0 {
		p.Mismatch = fmt.Sprintf("%s at element %s where %s must be", m.fields["got"], m.fields["first"],
			m.fields["want"])
	}
	origin := cmp.Or(start, p.Begin)
	p.End -= origin
	_, spans, err := readTimes(r.file(rank, "times"))
	p.Spans = since(spans, origin)
	if err == nil && len(p.Spans) != ops {
		err = fmt.Errorf("%d times of %d operations", len(p.Spans), ops)
	}
	if err != nil {
		return p, fmt.Errorf("read the times of rank %d: %w", rank, err)
	}
	return p, nil
}

// readTimes reads a file of times (cuda/rank/program.h): when the program began, and the spans of its operations.
func readTimes(path string) (begin int64, spans []Span, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, nil, err
	}
	if len(b)%16 != 8 {
		return 0, nil, fmt.Errorf("it has %d bytes", len(b))
	}
	number := func(i int) int64 { return int64(binary.NativeEndian.Uint64(b[8*i:])) }
	spans = make([]Span, len(b)/16)
	for i := range spans {
		spans[i] = Span{number(1 + 2*i), number(2 + 2*i)}
	}
	return number(0), spans, nil
}

// partly is what the ranks have played of a program that was stopped: the spans of operations that have ended, relative
// to the begin.
func (r *Ranks) partly(start int64) []Played {
	all := make([]Played, len(r.processes))
	for rank := range all {
		begin, spans, err := readTimes(r.file(rank, "times"))
		if err != nil || begin == 0 {
			continue // it has not begun
		}
		all[rank].Begin, all[rank].Spans = begin, since(spans, cmp.Or(start, begin))
	}
	return all
}

// since makes the spans of a file of times relative to a time.
func since(spans []Span, origin int64) []Span {
	for i := range spans {
		if s := &spans[i]; s.End == 0 {
			s.End = NotEnded
		} else {
			s.Ready, s.End = s.Ready-origin, s.End-origin
		}
	}
	return spans
}
