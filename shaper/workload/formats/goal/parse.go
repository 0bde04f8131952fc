// SPDX-License-Identifier: Apache-2.0

package goal

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs/bounds"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// program is a file of GOAL.
type program struct {
	ranks    [][]task
	computes bool
	nics     int // messages that name a NIC other than the first
	budget   bounds.Budget
}

// task is a send, a receive or a computation.
type task struct {
	label    string
	kind     workload.Kind
	amount   int64 // bytes, or ns
	peer     int
	tag      string
	suffix   string // #tag if the messages of this tag have a communicator of their own
	cpu      int
	requires []int // tasks that must have ended
	starts   []int // tasks that must have started (irequires)
	priority int
}

// parser reads a file line by line.
type parser struct {
	*input.Lines
	program
	rank   int // the open block, -1 outside
	seen   []bool
	labels map[string]int
	limit  *input.Limit
}

func parse(f input.File, limit *input.Limit) (*program, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	p := &parser{Lines: in.Lines(), rank: -1, limit: limit}
	comment := false
	for p.Next() {
		p.budget.Read(int64(len(p.Text()) + 1))
		var text string
		if text, comment = stripComments(p.Text(), comment); text == "" {
			continue
		}
		// Statements end with a line or a semicolon, and braces may stand on their own.
		text = strings.NewReplacer("{", " {;", "}", ";};").Replace(text)
		for _, statement := range strings.Split(text, ";") {
			words := strings.Fields(strings.ReplaceAll(statement, ":", " : "))
			if len(words) == 0 {
				continue
			}
			if err := p.statement(words); err != nil {
				return nil, p.Errorf("%w", err)
			}
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	switch {
	case p.ranks == nil:
		return nil, p.Errorf("no num_ranks: this is no GOAL file")
	case p.rank >= 0:
		return nil, p.Errorf("the file ends within rank %d: it was cut", p.rank)
	}
	if missing := slices.Index(p.seen, false); missing >= 0 {
		return nil, p.Errorf("num_ranks is %d and there is no rank %d", len(p.ranks), missing)
	}
	return &p.program, nil
}

// stripComments removes comments: from // or # to the end of the line, and between /* and */. open says that the line
// begins within one, and that the next one does.
func stripComments(line string, open bool) (text string, stillOpen bool) {
	var kept strings.Builder
	for {
		if open {
			_, rest, closed := strings.Cut(line, "*/")
			if !closed {
				return strings.TrimSpace(kept.String()), true
			}
			line = rest
		}
		at := beginOfComment(line)
		kept.WriteString(line[:at])
		if at == len(line) || !strings.HasPrefix(line[at:], "/*") {
			return strings.TrimSpace(kept.String()), false
		}
		kept.WriteByte(' ')
		line, open = line[at+2:], true
	}
}

// beginOfComment is where the first comment of a line begins, the length of the line if there is none.
func beginOfComment(line string) int {
	for i := range len(line) {
		if line[i] == '#' || line[i] == '/' && i+1 < len(line) && (line[i+1] == '/' || line[i+1] == '*') {
			return i
		}
	}
	return len(line)
}

func (p *parser) statement(words []string) error {
	switch {
	case p.ranks == nil:
		return p.numRanks(words)
	case words[0] == "}":
		if p.rank < 0 {
			return errors.New("} without rank")
		}
		p.rank = -1
		return nil
	case p.rank < 0:
		return p.openRank(words)
	case words[0] == "{":
		return nil
	case len(words) == 3 && (words[1] == "requires" || words[1] == "irequires"):
		return p.dependency(words)
	case len(words) > 2 && words[1] == ":":
		return p.task(words)
	}
	return fmt.Errorf("%q: LABEL: send|recv|calc or LABEL requires LABEL is expected", strings.Join(words, " "))
}

func (p *parser) numRanks(words []string) error {
	if len(words) != 2 || words[0] != "num_ranks" {
		return fmt.Errorf("%q: num_ranks N is expected first", strings.Join(words, " "))
	}
	n, err := strconv.Atoi(words[1])
	if err != nil || n < 1 || n > workload.MaxRanks {
		return fmt.Errorf("num_ranks %s: a number from 1 to %d is expected", words[1], workload.MaxRanks)
	}
	p.ranks, p.seen = make([][]task, n), make([]bool, n)
	return nil
}

func (p *parser) openRank(words []string) error {
	if len(words) < 2 || words[0] != "rank" || len(words) > 3 || len(words) == 3 && words[2] != "{" {
		return fmt.Errorf("%q: rank R { is expected", strings.Join(words, " "))
	}
	r, err := strconv.Atoi(words[1])
	switch {
	case err != nil || r < 0 || r >= len(p.ranks):
		return fmt.Errorf("rank %s: num_ranks is %d", words[1], len(p.ranks))
	case p.seen[r]:
		return fmt.Errorf("rank %d is there twice", r)
	}
	p.rank, p.seen[r], p.labels = r, true, map[string]int{}
	return nil
}

// task reads LABEL : send 8b to 1 tag 3 cpu 0 nic 0, its recv ... from, or calc 1000 cpu 0.
func (p *parser) task(words []string) error {
	if _, twice := p.labels[words[0]]; twice {
		return fmt.Errorf("the label %s is there twice", words[0])
	}
	if err := p.limit.Add(); err != nil {
		return err
	}
	if len(words) < 4 {
		return fmt.Errorf("%s: send, recv or calc with an amount is expected", words[0])
	}
	t := task{label: words[0], kind: workload.Kind(words[2]), priority: len(p.ranks[p.rank]), peer: -1}
	unit := "b"
	switch t.kind {
	case workload.Send, workload.Recv:
	case workload.Calc:
		unit, p.computes = "", true
	default:
		return fmt.Errorf("%s: %q is no task: there are send, recv and calc", t.label, words[2])
	}
	var err error
	if t.amount, err = strconv.ParseInt(strings.TrimSuffix(words[3], unit), 10, 64); err != nil || t.amount < 0 {
		return fmt.Errorf("%s: %q is no amount", t.label, words[3])
	}
	options := words[4:]
	if len(options)%2 != 0 {
		return fmt.Errorf("%s: %s has no value", t.label, options[len(options)-1])
	}
	for i := 0; i < len(options); i += 2 {
		if err := p.option(&t, options[i], options[i+1]); err != nil {
			return err
		}
	}
	if t.kind != workload.Calc && t.peer < 0 {
		return fmt.Errorf("%s: the other rank is missing", t.label)
	}
	p.labels[t.label] = len(p.ranks[p.rank])
	p.ranks[p.rank] = append(p.ranks[p.rank], t)
	return nil
}

func (p *parser) option(t *task, name, value string) error {
	n, err := strconv.Atoi(value)
	switch name {
	case "tag":
		t.tag = value
		return nil
	case "nic":
		if value != "0" {
			p.nics++
		}
		return nil
	case "cpu":
		if t.cpu = n; err != nil || n < 0 {
			return fmt.Errorf("%s: cpu %s is no number", t.label, value)
		}
		return nil
	case "to", "from":
		if name == "from" && n == -1 {
			return fmt.Errorf(
				"%s: a receive from any rank (-1): which send it takes depends on the network, and NCCL has no such "+
					"receive", t.label)
		}
		if t.peer = n; err != nil || n < 0 || n >= len(p.ranks) || n == p.rank {
			return fmt.Errorf("%s: rank %s: another rank from 0 to %d is expected", t.label, value, len(p.ranks)-1)
		}
		return nil
	}
	return fmt.Errorf("%s: %q is not known", t.label, name)
}

func (p *parser) dependency(words []string) error {
	var at [2]int
	for i, label := range []string{words[0], words[2]} {
		n, ok := p.labels[label]
		if !ok {
			return fmt.Errorf("there is no label %s before this line", label)
		}
		at[i] = n
	}
	if at[0] == at[1] {
		return fmt.Errorf("%s requires itself", words[0])
	}
	t := &p.ranks[p.rank][at[0]]
	if words[1] == "requires" {
		t.requires = append(t.requires, at[1])
	} else {
		t.starts = append(t.starts, at[1])
	}
	return nil
}
