// SPDX-License-Identifier: Apache-2.0

package ncclcalls

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl/debuglog"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// handle is the address of a communicator in a process. It tells the GPUs of a process apart; the number in brackets
// of a line does not, because it is the device that was current in the calling thread.
type handle struct{ process, address string }

// member is a communicator as one of its ranks knows it.
type member struct {
	process string // host:pid
	// device is the communicator's device if there was an INIT line that says it, current the device of the thread that
	// made the first call.
	device, current string
	rank, size      int    // rank is -1 if there was no INIT line
	id              string // of the communicator, the same on all ranks; "" if it is not known
	caller          *caller
	calls           []call
}

// caller is a rank of the job: a GPU of a process.
type caller struct {
	gpu
	number int // in the order of the log
	rank   int
	calls  []*call // in the order of the log
}

// call is a call of NCCL.
type call struct {
	op      *workload.Op // shared by equal calls
	member  *member
	opCount uint64 // the same for all calls of a group
	number  int    // in the order of the log
	stream  string
	at      time.Duration // of the host's call
	left    bool          // left out: not all ranks have it
}

// log is what was read.
type log struct {
	handles    map[handle]*member // that exist
	members    []*member          // all, in the order of the log
	callers    []*caller          // by rank
	ranks      int
	calls      int
	broken     []broken // calls whose lines are cut, the last ones
	cut        int      // of them, and of those that were dropped from broken
	warnings   int      // lines of warnings
	foreign    int      // lines that are not of NCCL
	foreignOps int
	repeated   int  // lines of calls behind which Ray says that it left out others
	timed      bool // each line has a time with a fraction of a second
	untimed    bool
	guessed    int            // callers whose rank no line of INIT says
	guessedBy  string         // how their ranks were found, as the end of a sentence; "" in the order of the log
	byCalls    bool           // communicators with the same calls were taken to be of different ranks
	unknown    map[string]int // calls of functions that are no collectives, by name
	first      time.Time
	variables  []string // that NCCL took from the environment, as NAME=VALUE
	pairing    []string // notes of which calls are left out
	finder     debuglog.Finder
	found      []debuglog.Message
	limit      *input.Limit
	names      input.Names // so that no line is kept in memory for a part of it
	ops        map[opKey]*workload.Op
}

// opKey is what tells operations apart.
type opKey struct{ name, count, datatype, op, root, ranks string }

// broken is the beginning of a call's line. Another rank's line may have come in the middle of it.
type broken struct{ process, current, text, line string }

const maxBroken = 8

func newLog() *log {
	return &log{handles: map[handle]*member{}, ops: map[opKey]*workload.Op{}, unknown: map[string]int{}}
}

// read reads a file. Lines of other programs are passed over.
func (l *log) read(f input.File, limit *input.Limit) error {
	l.limit = limit
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	lines := in.Lines()
	for lines.Next() {
		if err := l.line(debuglog.Plain(lines.Text())); err != nil {
			return lines.Errorf("%w", err)
		}
		if err := limit.Check(l.calls); err != nil {
			return lines.Errorf("%w", err)
		}
	}
	l.timed = l.timed && !l.untimed
	l.broken = nil
	return lines.Err()
}

// line reads a line, which may have several messages, and the rest of a call whose beginning is on a line before.
func (l *log) line(text string) error {
	l.found = l.finder.In(text, l.found[:0])
	if before := debuglog.Before(text, l.found); strings.TrimSpace(before) != "" {
		switch joined, err := l.join(before); {
		case err != nil:
			return err
		case joined, len(l.found) > 0:
		case isCall(text):
			l.cut++
		default:
			l.foreign++
		}
	}
	for i := range l.found {
		m := &l.found[i]
		if m.Level != "INFO" {
			if m.Level == "WARN" {
				l.warnings++
			}
			continue
		}
		if err := l.message(m, text); err != nil {
			return err
		}
	}
	return nil
}

// message reads a message of a line.
func (l *log) message(m *debuglog.Message, line string) error {
	if isCall(m.Text) {
		if rayRepeated.MatchString(m.Text) {
			l.repeated++
		}
		c, ok := parseCall(m.Text)
		if !ok {
			l.cut++
			if len(l.broken) == maxBroken {
				l.broken = l.broken[1:]
			}
			l.broken = append(l.broken, broken{m.Process, m.Device, m.Text, line})
			return nil
		}
		return l.call(m.Process, m.Device, &c, line)
	}
	if i, ok := parseInit(m.Text); ok {
		return l.init(m.Process, &i)
	}
	if set := setLine.FindStringSubmatch(m.Text); set != nil {
		l.variables = append(l.variables, strings.Clone(set[1]+"="+set[2]))
	}
	return nil
}

// join completes a cut call with a text that follows.
func (l *log) join(rest string) (joined bool, err error) {
	for i := len(l.broken) - 1; i >= 0; i-- {
		b := l.broken[i]
		c, ok := parseCall(b.text + rest)
		if !ok {
			continue
		}
		l.broken = append(l.broken[:i], l.broken[i+1:]...)
		l.cut--
		return true, l.call(b.process, b.current, &c, b.line)
	}
	return false, nil
}

// init reads the line of a communicator that is made or ended. An address may be used again.
func (l *log) init(process string, i *commFields) error {
	rank, err1 := strconv.Atoi(i.rank)
	size, err2 := strconv.Atoi(i.ranks)
	if err1 != nil || err2 != nil || rank >= size || size > workload.MaxRanks {
		return fmt.Errorf("a communicator with rank %s of %s", i.rank, i.ranks)
	}
	h := handle{l.names.Shared(process), l.names.Shared(i.comm)}
	if i.end {
		delete(l.handles, h)
		return nil
	}
	m := l.handles[h]
	if m == nil || len(m.calls) > 0 {
		m = l.member(h)
	}
	m.rank, m.size = rank, size
	if i.device != "" {
		m.device = l.names.Shared(i.device)
	}
	switch parent := l.handles[handle{h.process, i.parent}]; {
	case i.id != "":
		m.id = l.names.Shared(i.id)
	case parent != nil && parent.id != "":
		m.id = l.names.Shared(parent.id + "/" + i.split)
	case parent != nil:
		m.id = l.names.Shared(fmt.Sprintf("of %d ranks/%s", parent.size, i.split))
	}
	return nil
}

func (l *log) member(h handle) *member {
	m := &member{process: h.process, rank: -1}
	l.handles[h] = m
	l.members = append(l.members, m)
	return m
}

// call reads the line of a call.
func (l *log) call(process, current string, c *callFields, line string) error {
	size, err := strconv.Atoi(c.ranks)
	if err != nil || size < 1 || size > workload.MaxRanks {
		return fmt.Errorf("a communicator of %s ranks", c.ranks)
	}
	key := opKey{c.name, c.count, c.datatype, c.op, c.root, c.ranks}
	op := l.ops[key]
	if op == nil && !isFunc(c.name) {
		l.unknown[l.names.Shared(c.name)]++
		return nil
	}
	if op == nil {
		made, err := l.op(c, size)
		if err != nil {
			return err
		}
		op = &made
		l.ops[opKey{l.names.Shared(c.name), l.names.Shared(c.count), l.names.Shared(c.datatype), l.names.Shared(c.op),
			l.names.Shared(c.root), l.names.Shared(c.ranks)}] = op
	}
	if op.RedOp == "" && op.Func.Reduces() && c.op != "0" {
		l.foreignOps++
	}
	h := handle{l.names.Shared(process), l.names.Shared(c.comm)}
	m := l.handles[h]
	if m == nil || m.size != size {
		m = l.member(h)
		m.size = size
	}
	if len(m.calls) == 0 {
		m.current = l.names.Shared(current)
	}
	if rank, err := strconv.Atoi(c.rank); err == nil && m.rank < 0 && rank >= 0 && rank < size {
		m.rank = rank
	}
	m.calls = append(m.calls,
		call{op: op, member: m, opCount: c.opCount, number: l.calls, stream: l.names.Shared(c.stream),
			at: l.time(line)})
	l.calls++
	return nil
}

// isFunc says whether calls of a name are of a collective, or sends and receives.
func isFunc(name string) bool {
	if name == "Send" || name == "Recv" || name == "Bcast" {
		return true
	}
	_, err := workload.ParseFunc(name)
	return err == nil
}

// time is the time of a line since the first one. A time without a fraction of a second is of no use.
func (l *log) time(line string) time.Duration {
	before := line
	if len(l.found) > 0 && l.found[0].Begin < len(line) {
		before = line[:l.found[0].Begin]
	}
	var m []string
	if len(before) >= leastStamp {
		m = lineTime.FindStringSubmatch(before)
	}
	if m == nil || m[2] == "" {
		l.untimed = true
		return 0
	}
	text := strings.Replace(m[1], "T", " ", 1) + "." + m[2][1:]
	at, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		l.untimed = true
		return 0
	}
	if l.first.IsZero() {
		l.first = at
	}
	l.timed = true
	return at.Sub(l.first)
}

// op is the operation of a call.
func (l *log) op(c *callFields, size int) (op workload.Op, err error) {
	name := c.name
	if op.Count, err = strconv.ParseInt(c.count, 10, 64); err != nil {
		return op, fmt.Errorf("%s: count %s", name, c.count)
	}
	typ, err := strconv.Atoi(c.datatype)
	if op.Type = workload.TypeOf(typ); err != nil || op.Type == "" {
		return op, fmt.Errorf("%s: datatype %s is not known", name, c.datatype)
	}
	root, err := strconv.Atoi(c.root)
	badRoot := func() error { return fmt.Errorf("%s: root %s of %d ranks", name, c.root, size) }
	if err != nil || root >= size {
		return op, badRoot()
	}
	switch name {
	case "Send", "Recv":
		if root < 0 {
			return op, badRoot()
		}
		op.Kind, op.Peer = workload.Kind(strings.ToLower(name)), root
		return op, nil
	case "Bcast":
		name = "Broadcast"
	}
	op.Kind = workload.Coll
	if op.Func, err = workload.ParseFunc(name); err != nil {
		return op, err
	}
	if op.Func.Rooted() {
		if root < 0 {
			return op, badRoot()
		}
		op.Root = root
	}
	if op.Func.Reduces() {
		n, _ := strconv.Atoi(c.op)
		op.RedOp, _ = workload.RedOpOf(n) // the caller counts operators of the program
	}
	return op, nil
}
