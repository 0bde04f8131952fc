// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// begins are the first words of lines with which the head of a table may begin: also what is left of one.
var begins = []string{"nccl-tests version", "Collective test starting:", "nThread", "Using devices", "ddlemu bench",
	"profile"}

// comment reads a line of nccl-tests that begins with "#", without that. nccl-tests begins with its version (since
// 2.17), "Collective test starting: all_reduce_perf" (since 2.16.7) and "nThread ..."; ddlemu bench with its own name.
func (p *parser) comment(n int, text string) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return
	}
	switch {
	case isHead(words):
		p.names(n, words)
		return
	case slices.ContainsFunc(begins, func(first string) bool { return strings.HasPrefix(text, " "+first+" ") }) ||
		words[0] == "Rank":
		p.begins(n)
		if name := collective(words); name != "" {
			p.test.Name = name
		}
		if words[0] == "nThread" {
			p.program(text)
		}
	}
	if p.test != nil {
		p.test.learn(words, p.hosts)
	}
}

// program counts the programs whose heads follow each other: those of one command are alike. Another head begins
// another run, and the one before ended without a row.
func (p *parser) program(text string) {
	t := p.test
	if t.Programs > 0 && text != p.nThread {
		t.Programs, t.Ranks, t.Nodes, p.hosts = 0, 0, 0, map[int]string{}
	}
	t.Programs++
	p.nThread = text
}

// bareHead is where in words a line of a head begins whose "#" was lost, as in a text that was taken for Markdown; -1
// if there is none.
func bareHead(words []string) int {
	for i, word := range words {
		rest := words[i:]
		switch {
		case word == "nThread" && slices.Contains(rest, "minBytes"), word == "size" && isHead(rest),
			word == "Rank" && slices.Contains(rest, "Pid") && slices.Contains(rest, "device"):
			return i
		}
	}
	return -1
}

// begins begins a test unless the head of one has just begun.
func (p *parser) begins(n int) {
	if p.test == nil || p.headed || len(p.test.Rows) > 0 {
		p.flush()
		p.start(n)
	}
}

// names takes the names of the columns. If a test has rows already, they are those of another one of the same ranks.
func (p *parser) names(n int, words []string) {
	p.flush()
	switch {
	case p.test == nil:
		p.start(n)
	case len(p.test.Rows) > 0:
		before := *p.test
		p.start(n)
		p.test.Ranks, p.test.Iters, p.test.Nodes = before.Ranks, before.Iters, before.Nodes
	}
	p.columns, p.headed = named(words), true
	p.test.CPUTime = p.columns.cpu
	if p.test.Name == "" {
		p.test.Name, p.nextName = p.nextName, ""
	}
}

// collective is the collective that a line of a head names, "" if it names none.
func collective(words []string) string {
	for i := range words[:max(len(words)-1, 0)] {
		next := strings.TrimSuffix(words[i+1], ":")
		if words[i] == "starting:" || words[i] == "bench" && words[0] == "ddlemu" {
			if name, _, ok := strings.Cut(next, "_perf"); ok || known(next) {
				return name
			}
		}
	}
	return ""
}

// others are nccl-tests' programs for which package nccl may have no collective.
var others = []string{"gather", "scatter", "hypercube"}

// known says whether name is that of one of nccl-tests' programs.
func known(name string) bool {
	return slices.Contains(nccl.Collectives(), name) || slices.Contains(others, name)
}

// learn reads the number of ranks and of iterations from a line of the head. nccl-tests has a line for each rank, "Rank
// 0 Group 0 Pid ...", ddlemu bench "... ranks 2 nodes 2". Both have "... warmup iters: 5 iters: 20 ...".
func (t *Test) learn(words []string, hosts map[int]string) {
	for i := 1; i+1 < len(words); i++ {
		if words[i] == "iters:" && words[i-1] != "warmup" && digits(words[i+1]) {
			t.Iters, _ = strconv.Atoi(words[i+1]) // 0 if the number is too large
			break
		}
	}
	if len(words) > 2 && words[0] == "Rank" && digits(words[1]) {
		if rank, err := strconv.Atoi(words[1]); err == nil {
			t.Ranks = max(t.Ranks, rank+1)
			if on := slices.Index(words, "on"); on > 0 && on+1 < len(words) {
				hosts[rank] = words[on+1]
			}
			t.Nodes = nodes(hosts, t.Ranks)
		}
		return
	}
	if i := slices.Index(words, "ranks"); i >= 0 && slices.Contains(words, "datapath") && len(words) > i+1 {
		if ranks, err := strconv.Atoi(words[i+1]); err == nil {
			t.Ranks = max(ranks, 0)
		}
	}
}

// nodes is the number of different hosts of so many ranks, 0 if some rank has none.
func nodes(hosts map[int]string, ranks int) int {
	if len(hosts) != ranks {
		return 0
	}
	different := map[string]bool{}
	for _, host := range hosts {
		different[host] = true
	}
	return len(different)
}
