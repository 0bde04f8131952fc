// SPDX-License-Identifier: Apache-2.0

// Package inspector reads the records of NCCL Inspector, a profiler plugin that comes with NCCL since 2.28: JSON
// objects, one for each call of a rank on a communicator that the Inspector had the time to write.
//
// A size is the count of NCCL's call times the size of the type: for AllGather what a rank puts in, for ReduceScatter
// what comes out of it (inspectorPluginCollInfoInit of its inspector_plugin.cc).
package inspector

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/members"
)

// record is one object of a file. Some fields exist only with NCCL_INSPECTOR_DUMP_VERBOSE=1, and p2p_perf since NCCL
// 2.30.
type record struct {
	Header   *header  `json:"header"`
	Metadata metadata `json:"metadata"`
	Coll     *struct {
		Func  string `json:"coll"`
		Seq   int64  `json:"coll_sn"`
		Bytes int64  `json:"coll_msg_size_bytes"`
		Exec  int64  `json:"coll_exec_time_us"`
		Trace struct {
			Start int64 `json:"coll_start_ts"`
		} `json:"event_trace_ts"`
	} `json:"coll_perf"`
	P2P *struct {
		Func  string `json:"p2p"`
		Seq   int64  `json:"p2p_sn"`
		Peer  int    `json:"p2p_peer"`
		Bytes int64  `json:"p2p_msg_size_bytes"`
		Exec  int64  `json:"p2p_exec_time_us"`
		Trace struct {
			Start int64 `json:"p2p_start_ts"`
		} `json:"event_trace_ts"`
	} `json:"p2p_perf"`
	Stats *struct {
		Coll int64 `json:"coll_dropped_total"`
		P2P  int64 `json:"p2p_dropped_total"`
	} `json:"dump_stats"`
	Proxy *struct{} `json:"proxy_trace"`
}

// header says of which rank of which communicator a record is.
type header struct {
	ID    input.Text `json:"id"`
	Rank  int        `json:"rank"`
	Ranks int        `json:"n_ranks"`
	Nodes int        `json:"nnodes"`
}

// metadata says which process wrote a record.
type metadata struct {
	Dumped   int64  `json:"dump_timestamp_us"`
	Hostname string `json:"hostname"`
	PID      int64  `json:"pid"`
}

func (m *metadata) process() string { return fmt.Sprintf("%s:%d", m.Hostname, m.PID) }

// origin is a rank of a communicator in a process.
type origin struct {
	process string
	comm    input.Text
	rank    int
}

// maxTime is the latest time in us that fits into ns.
const maxTime = 1 << 53

// reader collects the records.
type reader struct {
	options  input.Options
	job      members.Job
	rows     map[*members.Member]*row
	order    []*members.Member
	names    input.Names
	unknown  map[string]int // functions, with the number of their records
	strange  int            // records of neither a collective nor a message
	cut      int            // files that end in the middle of a record
	rootless int
	untimed  bool
	pending  int // messages since the last collectives
	nodes    int
	dropped  map[origin]int64 // calls that the ring of a rank had no room for
}

// row is what a rank of a communicator has recorded.
type row struct {
	messages []message // since the last collective
	group    int32
	exec     int64 // us
	first    int64 // number of the first message
	last     int64
	have     int64
}

// message is a send or receive.
type message struct {
	op  workload.Op
	seq int64
	at  int64
}

// Read reads the files of the ranks of a job, in any order.
func Read(files []input.File, o input.Options) (*workload.Workload, error) {
	r := &reader{options: o, job: members.Job{Limit: o.Limit}, rows: map[*members.Member]*row{},
		unknown: map[string]int{}, dropped: map[origin]int64{}}
	for _, f := range files {
		if err := r.read(f); err != nil {
			return nil, err
		}
	}
	for _, m := range r.order {
		if err := r.flush(m); err != nil {
			return nil, fmt.Errorf("%s: %w", files[0].Name, err)
		}
	}
	if r.job.Calls() == 0 {
		return nil, fmt.Errorf("%s: no record of a collective, send or receive that is known", files[0].Name)
	}
	r.job.Timed = !r.untimed
	r.describe()
	w, err := r.job.Build(files[0].Name, o)
	if err != nil {
		return nil, err
	}
	s := &w.Head.Source
	s.Kind, s.File = "inspector", input.Title(files[0].Name, len(files))
	if r.nodes > 0 {
		s.Hardware = units.Count(r.nodes, "node")
	}
	return w, nil
}

func (r *reader) read(f input.File) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	var dump record // the last record of statistics
	for j := in.JSON(); ; {
		var rec record
		err := j.Decode(&rec)
		if rec.Header == nil && dump.Header != nil {
			rec.Header, rec.Metadata = dump.Header, dump.Metadata
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			r.cut++
			return nil
		case err != nil && !input.IsWrongType(err):
			return j.Wrap(err)
		case err == nil && rec.Header != nil && rec.Stats != nil:
			dump = rec
			r.statistics(&rec)
			continue
		case err == nil && rec.Proxy != nil && rec.Coll == nil && rec.P2P == nil:
			continue // what the proxy threads did says nothing more about calls
		case err != nil || rec.Header == nil || rec.Coll == nil && rec.P2P == nil:
			r.strange++
			continue
		}
		if err := r.record(&rec); err != nil {
			return j.Wrap(err)
		}
	}
}

// statistics takes the record that the Inspector writes before the others of a communicator since version 4.1 of its
// format. Since 4.3 it alone says of which communicator and process they are.
func (r *reader) statistics(rec *record) {
	o := origin{r.names.Shared(rec.Metadata.process()), rec.Header.ID, rec.Header.Rank}
	r.dropped[o] = max(r.dropped[o], rec.Stats.Coll+rec.Stats.P2P)
}

func (r *reader) record(rec *record) error {
	h := rec.Header
	if h.Ranks < 1 {
		return fmt.Errorf("a communicator of %d ranks", h.Ranks)
	}
	process := r.names.Shared(rec.Metadata.process())
	m, err := r.job.Member(process, r.names.Shared(string(h.ID)), h.Rank, h.Ranks)
	if err != nil {
		return err
	}
	if r.rows[m] == nil {
		r.rows[m] = &row{}
		r.order = append(r.order, m)
	}
	r.nodes = max(r.nodes, h.Nodes)
	if rec.Coll != nil {
		return r.collective(m, rec)
	}
	return r.message(m, rec)
}

// at is when the host called. Without a trace of events it is about when the call ended, which is good for the order
// only.
func (r *reader) at(start, exec int64, rec *record) int64 {
	if start <= 0 || start > maxTime {
		r.untimed = true
		start = rec.Metadata.Dumped - exec
	}
	return min(max(start, 0), maxTime) * 1000
}

func (r *reader) collective(m *members.Member, rec *record) error {
	c := rec.Coll
	f, err := workload.ParseFunc(c.Func)
	if err != nil {
		r.unknown[r.names.Shared(c.Func)]++
		return nil
	}
	if c.Bytes < 0 || c.Seq < 0 {
		r.strange++
		return nil
	}
	if f.Rooted() {
		r.rootless++
	}
	o := workload.Op{Kind: workload.Coll, Func: f}
	o.Count, o.Type = r.options.Elements(c.Bytes, 1)
	if err := r.flush(m); err != nil {
		return err
	}
	r.rows[m].exec += max(c.Exec, 0)
	return m.Add(&o, c.Seq, r.at(c.Trace.Start, c.Exec, rec), 0)
}

func (r *reader) message(m *members.Member, rec *record) error {
	p := rec.P2P
	kind, ok := map[string]workload.Kind{"Send": workload.Send, "Recv": workload.Recv}[p.Func]
	switch {
	case !ok:
		r.unknown[r.names.Shared(p.Func)]++
		return nil
	case p.Bytes < 0 || p.Peer < 0 || p.Peer >= m.Size || p.Seq < 0:
		r.strange++
		return nil
	}
	w := r.rows[m]
	o := workload.Op{Kind: kind, Peer: p.Peer}
	o.Count, o.Type = r.options.Elements(p.Bytes, 1)
	if w.have == 0 {
		w.first = p.Seq
	}
	w.have++
	w.first, w.last = min(w.first, p.Seq), max(w.last, p.Seq)
	w.exec += max(p.Exec, 0)
	w.messages = append(w.messages, message{o, p.Seq, r.at(p.Trace.Start, p.Exec, rec)})
	r.pending++
	return r.options.Limit.Check(r.pending)
}

// flush adds the sends and receives since the last collective as one group, in the order of their numbers: they are
// recorded in the order in which they ended.
func (r *reader) flush(m *members.Member) error {
	w := r.rows[m]
	if len(w.messages) == 0 {
		return nil
	}
	slices.SortStableFunc(w.messages, func(a, b message) int { return cmp.Compare(a.seq, b.seq) })
	w.group++
	for i := range w.messages {
		if err := m.Add(&w.messages[i].op, w.messages[i].seq, w.messages[i].at, w.group); err != nil {
			return err
		}
	}
	r.pending -= len(w.messages)
	w.messages = w.messages[:0]
	return nil
}

// describe says what the records do not, and counts what was not understood.
func (r *reader) describe() {
	j := &r.job
	j.Missing = append(j.Missing, "the type of the elements",
		"calls that the Inspector did not write: up to NCCL 2.29 it writes the last "+
			"call of a communicator in each interval and no send or receive, since 2.30 none below 8 KiB")
	missing, note := input.Sentences(&j.Missing), input.Counts(&j.Notes)
	missing(r.rootless > 0, "the root of %s: rank 0 of the communicator is taken", units.Count(r.rootless, "record"))
	var exec, lost, most int64
	messages := false
	for _, w := range r.rows {
		exec += w.exec
		messages = messages || w.have > 0
		if w.have > 0 {
			lost += w.last - w.have // the first number is 1
		}
		most = max(most, w.exec)
	}
	missing(messages, "which sends and receives are one group of calls: those between two collectives are taken to be")
	if most > 0 {
		j.Notes = append(j.Notes,
			fmt.Sprintf("the calls took %.3f ms per rank of a communicator, with waiting for the other ranks",
				float64(exec)/1e3/float64(len(r.rows))))
	}
	note(int(max(lost, 0)), "message", "not in the files (a send or receive), by the numbers of the others: left out")
	overwritten := int64(0)
	for _, n := range r.dropped {
		overwritten += max(n, 0)
	}
	note(int(min(overwritten, math.MaxInt32)), "record",
		"overwritten before the Inspector wrote them (dump_stats): not in the files")
	note(r.cut, "file", "ends in the middle of a record, which was left out")
	note(r.strange, "record", "not understood")
	for _, name := range slices.Sorted(maps.Keys(r.unknown)) {
		note(r.unknown[name], "record", fmt.Sprintf("of %q, no collective, send or receive: left out", name))
	}
}
