// SPDX-License-Identifier: Apache-2.0

package nccllog

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// process is one GPU of one process: host:pid and the number in brackets.
type process struct{ id, device string }

// handle is the address of a communicator in a process.
type handle struct {
	process
	address string
}

// caller is a process with its calls.
type caller struct {
	number int // in the order of the log
	rank   int
	calls  []call
}

// member is a communicator as one of its ranks knows it.
type member struct {
	caller     *caller
	rank, size int    // rank is -1 if there was no INIT line
	id         string // of the communicator, the same on all ranks; "" if there was no INIT line
}

// call is a call of NCCL.
type call struct {
	op      workload.Op
	member  *member
	opCount string
	stream  string
	at      time.Duration // of the host's call
}

// log is what was read.
type log struct {
	members    map[handle]*member
	processes  map[process]*caller
	callers    []*caller // by rank
	ranks      int
	calls      int
	cut        int
	foreignOps int
	timed      bool // each line has a time with a fraction of a second
	untimed    bool
	guessed    bool // ranks are in the order of the log
	first      time.Time
	variables  []string // that NCCL took from the environment, as NAME=VALUE
}

var (
	linePrefix = regexp.MustCompile(`(\S+:\d+):\d+ \[(\d+)\] NCCL INFO (.*)$`)
	lineTime   = regexp.MustCompile(`\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)([.,]\d+)?\]?`)
	lineInit   = regexp.MustCompile(`comm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+) .*?commId (0x[0-9a-f]+)`)
	lineSet    = regexp.MustCompile(`^(NCCL_\w+) set by environment to (\S+?)\.?$`)
	lineCall   = regexp.MustCompile(`^(\w+): opCount ([0-9a-f]+) sendbuff \S+ recvbuff \S+ (?:acc \S+ )?count (\d+) datatype (\d+) op (\d+) root (-?\d+) ` +
		`comm (0x[0-9a-f]+) \[nranks=(\d+)\] stream (\S+)`)
)

// types are ncclDataType_t.
var types = []string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16",
	"float8e4m3", "float8e5m2"}

// redOps are ncclRedOp_t. Higher numbers are operators that a program has made.
var redOps = []string{"", "prod", "max", "min", "avg"}

// read reads a file. Lines of other programs are passed over.
func (l *log) read(f input.File) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	lines := in.Lines()
	for lines.Next() {
		text := lines.Text()
		prefix := linePrefix.FindStringSubmatch(text)
		if prefix == nil {
			if strings.Contains(text, ": opCount ") {
				l.cut++
			}
			continue
		}
		p := process{prefix[1], prefix[2]}
		if m := lineCall.FindStringSubmatch(prefix[3]); m != nil {
			if err := l.call(p, m, text); err != nil {
				return lines.Errorf("%w", err)
			}
		} else if m := lineInit.FindStringSubmatch(prefix[3]); m != nil {
			err = l.init(p, m)
			if err != nil {
				return lines.Errorf("%w", err)
			}
		} else if m := lineSet.FindStringSubmatch(prefix[3]); m != nil {
			l.variables = append(l.variables, m[1]+"="+m[2])
		} else if strings.Contains(prefix[3], ": opCount ") {
			l.cut++
		}
		if l.calls > input.MaxOps {
			return lines.Errorf("more than %d calls", input.MaxOps)
		}
	}
	l.timed = l.timed && !l.untimed
	return lines.Err()
}

func (l *log) caller(p process) *caller {
	c, ok := l.processes[p]
	if !ok {
		c = &caller{number: len(l.processes), rank: -1}
		l.processes[p] = c
	}
	return c
}

// init reads the line of a communicator that was made.
func (l *log) init(p process, m []string) error {
	rank, err1 := strconv.Atoi(m[2])
	size, err2 := strconv.Atoi(m[3])
	if err1 != nil || err2 != nil || rank >= size || size > workload.MaxRanks {
		return fmt.Errorf("a communicator with rank %s of %s", m[2], m[3])
	}
	l.members[handle{p, m[1]}] = &member{caller: l.caller(p), rank: rank, size: size, id: m[4]}
	return nil
}

// call reads the line of a call.
func (l *log) call(p process, m []string, line string) error {
	size, err := strconv.Atoi(m[8])
	if err != nil || size < 1 || size > workload.MaxRanks {
		return fmt.Errorf("a communicator of %s ranks", m[8])
	}
	op, err := l.op(m, size)
	if err != nil {
		return err
	}
	h := handle{p, m[7]}
	if l.members[h] == nil {
		l.members[h] = &member{caller: l.caller(p), rank: -1, size: size}
	}
	c := call{op: op, member: l.members[h], opCount: m[2], stream: m[9]}
	c.at = l.time(line)
	owner := c.member.caller
	owner.calls = append(owner.calls, c)
	l.calls++
	return nil
}

// time is the time of a line since the first one. A time without a fraction of a second is of no use.
func (l *log) time(line string) time.Duration {
	m := lineTime.FindStringSubmatch(line)
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
func (l *log) op(m []string, size int) (op workload.Op, err error) {
	name := m[1]
	if op.Count, err = strconv.ParseInt(m[3], 10, 64); err != nil {
		return op, fmt.Errorf("%s: count %s", name, m[3])
	}
	typ, err := strconv.Atoi(m[4])
	if err != nil || typ >= len(types) {
		return op, fmt.Errorf("%s: datatype %s is not known", name, m[4])
	}
	op.Type = types[typ]
	root, err := strconv.Atoi(m[6])
	badRoot := fmt.Errorf("%s: root %s of %d ranks", name, m[6], size)
	if err != nil || root >= size {
		return op, badRoot
	}
	switch name {
	case "Send", "Recv":
		if root < 0 {
			return op, badRoot
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
			return op, badRoot
		}
		op.Root = root
	}
	if op.Func.Reduces() {
		n, err := strconv.Atoi(m[5])
		if err != nil || n >= len(redOps) {
			l.foreignOps++
			n = 0
		}
		op.RedOp = redOps[n]
	}
	return op, nil
}
