// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/debuglog"
)

// parser reads a log line by line.
type parser struct {
	log      Log
	test     *Test // the last of log.Tests, nil before the first line of one
	columns  columns
	headed   bool           // the columns were named for this test
	ranks    map[int]device // of the test
	nextName string         // of the collective of a program that was started, until its head
	nThread  string         // the first line of the newest head
	nccl     string         // the version that the log names first
	pending  pending        // row
	rows     int
	messages debuglog.Finder
	net      netFinder
	settings settings
	found    []debuglog.Message
}

// pending is a row whose end has not been read: NCCL's messages may come between the parts of a row, each of which
// nccl-tests prints when it has it.
type pending struct {
	line  int
	words []string // from the size on; nil if there is none
}

// colours matches what terminals take for colours, also if the escape was lost.
var colours = regexp.MustCompile(`\x1b?\[[0-9;]*[mK]`)

// ncclVersion matches the line in which NCCL (NCCL_DEBUG=VERSION and more) or ddlemu bench names its version.
var ncclVersion = regexp.MustCompile(`\bNCCL (?:version )?(2\.[0-9]+\.[0-9]+)`)

// outOfBounds matches the line with which nccl-tests sums up its checks, also if its "#" was lost.
var outOfBounds = regexp.MustCompile(`\bOut of bounds values +: (\d+)\b`)

// ending matches the line after ddlemu bench's table, and the one on standard error that may follow it.
var ending = regexp.MustCompile(`^\s*(verdict: [A-Za-z]+|ddlemu: .*)\s*$`)

// program matches the name of one of nccl-tests' programs.
var program = regexp.MustCompile(`\b([a-z]+(?:_[a-z]+)?)_perf\b`)

func (p *parser) line(n int, text string) {
	text = debuglog.Unwrap(text)
	if strings.Contains(text, "\x1b") || strings.Contains(text, "[0m") {
		text = colours.ReplaceAllString(text, "")
	}
	understood := false
	if m := ncclVersion.FindStringSubmatch(text); m != nil {
		p.nccl, understood = cmp.Or(p.nccl, m[1]), true
	}
	p.found = p.messages.In(text, p.found[:0])
	for i := range p.found {
		p.net.read(p.found[i].Text)
		p.settings.message(p.found[i].Text)
	}
	text = debuglog.Before(text, p.found)
	understood = p.settings.line(text) || understood
	if m := outOfBounds.FindStringSubmatch(text); m != nil {
		if wrong, _ := strconv.ParseInt(m[1], 10, 32); p.test != nil { // the largest number, if it is beyond that
			p.test.OutOfBounds += wrong
		}
		return
	}
	if at := comment(text); at >= 0 {
		p.comment(n, text[at+1:])
		return
	}
	words := slices.DeleteFunc(strings.Fields(text), func(w string) bool { return w == "|" })
	if at := bareHead(words); at >= 0 {
		p.comment(n, " "+strings.Join(words[at:], " "))
		return
	}
	if at, size := p.begin(words); at >= 0 {
		p.flush()
		words = append([]string{size}, words[at+1:]...)
		p.pending = pending{n, words}
		p.finish(false)
		return
	}
	if p.continues(words) {
		return
	}
	if strings.Contains(text, "_perf") {
		if m := program.FindStringSubmatch(text); m != nil && known(m[1]) {
			p.nextName = m[1]
		}
	}
	if len(p.found) == 0 && len(words) > 0 && !understood && !ending.MatchString(text) {
		p.foreign(n, text)
	}
}

// foreign counts a line that is not of a table.
func (p *parser) foreign(n int, text string) {
	if p.log.Foreign == 0 {
		p.log.First = Line{n, strings.TrimSpace(text)}
	}
	p.log.Foreign++
}

// comment is where the "#" of a line of nccl-tests is, after what launchers put before it, -1 if there is none.
func comment(text string) int {
	for i := range len(text) {
		if text[i] == '#' && (i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\t') {
			return i
		}
	}
	return -1
}

// begin is where in words the size of a row is, and the size itself, which may follow the prefix of a launcher without
// a blank. It is -1 if the words are no row. A row has two numbers to the left of its type.
func (p *parser) begin(words []string) (at int, size string) {
	for i := len(words) - 1; i >= 2; i-- {
		if !digits(words[i-1]) {
			continue
		}
		before := strings.TrimRight(words[i-2], "0123456789")
		size := words[i-2][len(before):]
		if size == "" || before != "" && !strings.ContainsRune(":>|])}", rune(before[len(before)-1])) {
			continue
		}
		if isType(words[i]) || p.isRow(words[i:]) {
			return i - 2, size
		}
	}
	return -1, ""
}

// isRow says whether words look like a row from its type on, although the type is not known: by as many numbers as a
// half has.
func (p *parser) isRow(words []string) bool {
	c := p.current()
	first := 1 + c.before()
	if len(words) < first+halfColumns || isNumber(words[0]) {
		return false
	}
	return isNumber(words[first]) && isNumber(words[first+1]) && isNumber(words[first+2])
}

// oldTypes are names of types in nccl-tests with NCCL 1, with the names of today.
var oldTypes = map[string]string{"char": "int8", "int": "int32"}

func isType(name string) bool {
	if oldTypes[name] != "" || name == "f8e4m3" || name == "f8e5m2" {
		return true
	}
	types, err := nccl.ParseDataTypes(name)
	return err == nil && len(types) == 1
}

func (p *parser) current() *columns {
	if p.headed {
		return &p.columns
	}
	return new(modern())
}

// continues adds the numbers at the end of words to the row that is pending, if they are a half of it or all of it that
// is missing. A number may be before them, such as the number of the line.
func (p *parser) continues(words []string) bool {
	if p.pending.words == nil {
		return false
	}
	n := 0
	for n < len(words) && isCell(words[len(words)-1-n]) {
		n++
	}
	c := p.current()
	room := c.missing(p.pending.words)
	if n-1 == room || n-1 == c.half && n != room {
		n--
	}
	if n == 0 || n > room || n != room && n != c.half {
		return false
	}
	p.pending.words = append(p.pending.words, words[len(words)-n:]...)
	p.finish(false)
	return true
}

// flush ends the row that is pending.
func (p *parser) flush() { p.finish(true) }

// finish adds the row that is pending if it is whole, or if no more of it comes.
func (p *parser) finish(last bool) {
	words := p.pending.words
	if words == nil || !last && p.current().missing(words) > 0 {
		return
	}
	t := p.owner()
	n := p.pending.line
	p.pending = pending{}
	p.rows++
	r := Row{Line: n, Type: words[2]}
	if today, ok := oldTypes[r.Type]; ok {
		r.Type = today
	}
	cut, err := p.read(&r, words)
	switch {
	case err != nil:
		t.Odd = append(t.Odd, Line{n, err.Error()})
		return
	case cut != "":
		t.Cut = append(t.Cut, Line{n, cut})
	}
	if cut != outOfPlaceCut {
		t.Rows = append(t.Rows, r)
	}
}

func (p *parser) read(r *Row, words []string) (cut string, err error) {
	c := p.current()
	if c.problem != "" {
		return "", errors.New(c.problem)
	}
	if r.Size, err = strconv.ParseInt(words[0], 10, 62); err != nil {
		return "", fmt.Errorf("size %s: not a number of bytes", words[0])
	}
	if r.Count, err = strconv.ParseInt(words[1], 10, 62); err != nil {
		return "", fmt.Errorf("count %s: not a number of elements", words[1])
	}
	return c.row(r, words[3:])
}

// owner is the test of a row.
func (p *parser) owner() *Test {
	if p.test == nil {
		p.start(p.pending.line)
	}
	if len(p.test.Rows) == 0 {
		p.test.Assumed, p.test.System.Settings = !p.headed, p.settings.of()
	}
	return p.test
}

// start begins a test.
func (p *parser) start(n int) {
	p.log.Tests = append(p.log.Tests, Test{Line: n, Name: p.nextName})
	p.test = &p.log.Tests[len(p.log.Tests)-1]
	p.headed, p.nextName, p.ranks = false, "", map[int]device{}
}

// end returns what was read.
func (p *parser) end() (Log, error) {
	p.flush()
	if p.rows > maxRows {
		return Log{}, fmt.Errorf("more than %d rows", maxRows)
	}
	why := ""
	p.log.Tests = withRows(p.log.Tests)
	for i := range p.log.Tests {
		t := &p.log.Tests[i]
		t.System.NCCL, t.System.Net = cmp.Or(t.System.NCCL, p.nccl), p.net.found()
		if why == "" && len(t.Odd) > 0 {
			why = fmt.Sprintf(": line %d: %s", t.Odd[0].Number, t.Odd[0].What)
		}
	}
	p.log.Tests = slices.DeleteFunc(p.log.Tests, func(t Test) bool { return len(t.Rows) == 0 })
	if len(p.log.Tests) == 0 {
		return Log{}, errors.New("the log has no whole row of nccl-tests' table (size, count, type, ...)" +
			cmp.Or(why, p.hint()))
	}
	for i := range p.log.Tests {
		p.log.Tests[i].joinCycles()
	}
	p.log.Tests = merge(p.log.Tests)
	return p.log, nil
}

// withRows joins the tables without a whole row to the one before, else to the next: their cut rows, odd lines
// and wrong values are then named with it.
func withRows(tests []Test) (all []Test) {
	var before Test
	for _, t := range tests {
		switch last := len(all) - 1; {
		case len(t.Rows) == 0 && last < 0:
			before.take(&t)
		case len(t.Rows) == 0:
			all[last].take(&t)
		default:
			before.take(&t)
			t.Cut, t.Odd, t.OutOfBounds = before.Cut, before.Odd, before.OutOfBounds
			before = Test{}
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		all = append(all, before)
	}
	return all
}

// hint says what the first line is that was not understood.
func (p *parser) hint() string {
	if p.log.Foreign == 0 {
		return ""
	}
	return fmt.Sprintf("; the first other line is %d: %.60q", p.log.First.Number, p.log.First.What)
}
