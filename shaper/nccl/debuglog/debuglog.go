// SPDX-License-Identifier: Apache-2.0

// Package debuglog finds the messages that NCCL writes with NCCL_DEBUG, wherever they are in the lines of a log: after
// the prefix of a launcher, in the middle of a line of another program, or several in one line.
package debuglog

import (
	"encoding/json"
	"regexp"
	"strings"
)

// colours matches what terminals take for colours.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*[mK]`)

// Plain is a line without the colours that a launcher, or grep, has put into it, also in the middle of a message, and
// out of the JSON that Docker keeps logs in.
func Plain(line string) string {
	line = Unwrap(line)
	if strings.IndexByte(line, 0x1b) < 0 {
		return line
	}
	return colours.ReplaceAllString(line, "")
}

// Wrapped is how a line begins that Docker's driver json-file has written:
// {"log":"...\n","stream":"stdout","time":"..."}.
const Wrapped = `{"log":"`

// Unwrap is the text of a line in Docker's JSON, any other line as it is.
func Unwrap(line string) string {
	if !strings.HasPrefix(line, Wrapped) {
		return line
	}
	var in struct{ Log string }
	if json.Unmarshal([]byte(line), &in) != nil {
		return line
	}
	return strings.TrimRight(in.Log, "\r\n")
}

// Message is a message in a line.
type Message struct {
	// Begin and End are its place in the line, with "host:pid:tid [device]".
	Begin, End int
	// Process is host:pid.
	Process string
	// Device is the device that was current in the thread that wrote, not that of the communicator; "" if there is
	// none.
	Device string
	Level  string // INFO, WARN, TRACE or CALL
	Text   string
}

// Finder finds messages. It remembers the processes that it has seen, because the name of a host may follow the text of
// another program without a blank: "-1host:10:12 [0] NCCL INFO". The zero value is ready to use.
type Finder struct{ known map[string]bool }

const (
	mark     = " NCCL "
	maxWords = 5 // between the device and the level of a WARN or TRACE
	// How far is looked back for the columns of a row, and in a word for host:pid. A line may have many messages: over
	// all that is before each of them, the time grew with the square of their number.
	maxRow  = 256
	maxName = 1 << 10
)

var levels = []string{"INFO ", "WARN ", "TRACE ", "CALL "}

// In appends the messages of a line to found. A message ends where the next one begins.
func (f *Finder) In(line string, found []Message) []Message {
	first, from := len(found), 0
	for {
		at := strings.Index(line[from:], mark)
		if at < 0 {
			break
		}
		at += from
		from = at + len(mark)
		for _, level := range levels {
			text, ok := strings.CutPrefix(line[from:], level)
			if !ok {
				continue
			}
			least := 0
			if len(found) > first {
				least = len(line) - len(found[len(found)-1].Text)
			}
			if least >= at {
				break
			}
			m, ok := f.prefix(line, least, at)
			if !ok {
				break
			}
			if len(found) > first {
				before := &found[len(found)-1]
				before.Text = before.Text[:len(before.Text)-(before.End-m.Begin)]
				before.End = m.Begin
			}
			m.End, m.Level, m.Text = len(line), strings.TrimSpace(level), text
			found = append(found, m)
			break
		}
	}
	return found
}

// prefix reads "host:pid:tid [device]" in line[least:end], before the level.
func (f *Finder) prefix(line string, least, end int) (m Message, ok bool) {
	for range maxWords {
		begin := max(strings.LastIndexByte(line[least:end], ' ')+1+least, least)
		word := line[begin:end]
		if m.Device == "" && len(word) > 2 && word[0] == '[' && word[len(word)-1] == ']' &&
			digits(word[1:len(word)-1]) {
			m.Device = word[1 : len(word)-1]
		} else if host, pid := process(word); pid > 0 {
			m.Begin = f.begin(line, begin+host, begin+pid, least > 0)
			m.Process = line[m.Begin : begin+pid]
			return m, true
		}
		if begin <= least {
			break
		}
		end = begin - 1
	}
	return m, false
}

// process finds host:pid at the end of a word, before ":tid". pid is where the number ends, 0 if there is none.
func process(word string) (host, pid int) {
	tid := trimDigits(word, len(word))
	if tid == len(word) || tid == 0 || word[tid-1] != ':' {
		return 0, 0
	}
	number := trimDigits(word, tid-1)
	if number == tid-1 || number == 0 || word[number-1] != ':' {
		return 0, 0
	}
	host = number - 1
	for host > 0 && hostChar(word[host-1]) {
		host--
	}
	if host == number-1 { // such as <redacted>
		host = 0
	}
	if host == number-1 {
		return 0, 0
	}
	return host, tid - 1
}

// begin is where the host's name begins in line[begin:end], which is host:pid with what may be before the host. If the
// whole was not seen before, but a part of it was, that is the name: within a message, and after a number. A negative
// number or an address is never of the name, nor is the type or the operator of a row of nccl-tests.
func (f *Finder) begin(line string, begin, end int, within bool) int {
	name := line[begin:end]
	if f.known[name] {
		return begin
	}
	if word := rowWord.FindString(name); word != "" && len(word) < len(name) &&
		rowBegin.MatchString(line[max(0, begin-maxRow):begin]) {
		begin += len(word)
		name = line[begin:end]
	}
	if within || name[0] == '-' || name[0] >= '0' && name[0] <= '9' {
		for i := max(1, len(name)-maxName); i < len(name); i++ {
			if f.known[name[i:]] {
				return begin + i
			}
		}
		if within || strings.TrimSpace(line[:begin]) != "" {
			begin += len(glued.FindString(name))
		}
	}
	if f.known == nil {
		f.known = map[string]bool{}
	}
	f.known[strings.Clone(line[begin:end])] = true
	return begin
}

// glued matches what cannot begin the name of a host: a negative number, or an address.
var glued = regexp.MustCompile(`^(?:-\d+|0x[0-9a-f]+?)`)

// Rows of nccl-tests before 2022 may end in their type or their operator when a message follows without a blank:
// "8388608 2097152 float sumhost:10:12 [0] NCCL INFO".
var (
	rowBegin = regexp.MustCompile(`(?:^|\s)\d+\s+\d+\s+(?:[a-z]\w*\s+)?$`)
	rowWord  = regexp.MustCompile(
		`^(?:sum|prod|max|min|mulsum|avg|all|none|float|half|double|bfloat16|u?int(?:8|32|64)?|char)`)
)

// Before is the text of a line before its messages, without the time that NCCL may write before the host's name, and
// without what a launcher puts before each write: "-1[0] host:10:12 [0] NCCL INFO".
func Before(line string, found []Message) string {
	if len(found) == 0 {
		return line
	}
	before := line[:found[0].Begin]
	before = before[:len(before)-len(stamp.FindString(before))]
	return before[:len(before)-len(launcher.FindString(before))]
}

var (
	stamp    = regexp.MustCompile(`\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?\]? ?$`)
	launcher = regexp.MustCompile(`(?:\[\d+\] ?|\[\d+,\d+\]<std(?:out|err)>: ?|^\s*\d+: )$`)
)

func hostChar(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.' || b == '_' || b == '-'
}

// trimDigits is where the digits before end begin.
func trimDigits(s string, end int) int {
	for end > 0 && s[end-1] >= '0' && s[end-1] <= '9' {
		end--
	}
	return end
}

func digits(s string) bool { return s != "" && trimDigits(s, len(s)) == 0 }
