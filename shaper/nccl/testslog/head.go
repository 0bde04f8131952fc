// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// begins are the first words of lines with which the head of a table may begin, also if its beginning is cut.
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
		p.test.System.learn(words)
	}
	if p.test != nil {
		p.test.learn(words, p.ranks)
	}
}

// program counts the programs whose heads follow each other: the heads of one command are alike. Another head begins
// another run, and the one before ended without a row.
func (p *parser) program(text string) {
	t := p.test
	if t.Programs > 0 && text != p.nThread {
		t.Programs, t.Ranks, t.Nodes, p.ranks = 0, 0, 0, map[int]device{}
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
		if p.test != nil {
			p.settings.read = nil // of the program before
		}
		p.start(n)
	}
}

// names takes the names of the columns. If a test has rows already, they are rows of another test of the same ranks.
func (p *parser) names(n int, words []string) {
	p.flush()
	switch {
	case p.test == nil:
		p.start(n)
	case len(p.test.Rows) > 0:
		before := *p.test
		p.start(n)
		p.test.Ranks, p.test.Iters, p.test.Nodes = before.Ranks, before.Iters, before.Nodes
		p.test.System = before.System
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

// known says whether name is the name of one of nccl-tests' programs.
func known(name string) bool {
	return slices.Contains(nccl.Collectives(), name) || slices.Contains(others, name)
}

// learn reads the number of ranks and of iterations from a line of the head. nccl-tests has a line for each rank, "Rank
// 0 Group 0 Pid ...", ddlemu bench "... ranks 2 nodes 2". Both have "... warmup iters: 5 iters: 20 ...".
func (t *Test) learn(words []string, ranks map[int]device) {
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
				ranks[rank] = device{words[on+1], product(words[on+1:])}
			}
			t.Nodes, t.System.GPU = nodes(ranks, t.Ranks), gpus(ranks, t.Ranks)
		}
		return
	}
	if i := slices.Index(words, "ranks"); i >= 0 && slices.Contains(words, "datapath") && len(words) > i+1 {
		if ranks, err := strconv.Atoi(words[i+1]); err == nil {
			t.Ranks = max(ranks, 0)
		}
	}
}

// device is where a rank is: the name of its host, and the product of its GPU.
type device struct{ host, product string }

// product is the GPU of a rank's line, which follows its PCI address in brackets; "" if there is none.
func product(words []string) string {
	at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "[") && strings.HasSuffix(w, "]") })
	if at < 0 {
		return ""
	}
	return strings.Trim(strings.Join(words[at+1:], " "), " |")
}

// nodes is the number of different hosts of so many ranks, 0 if some rank has none.
func nodes(ranks map[int]device, n int) int {
	return len(different(ranks, n, func(d device) string { return d.host }))
}

// gpus are the different products of so many ranks, "" if some rank has none.
func gpus(ranks map[int]device, n int) string {
	return strings.Join(different(ranks, n, func(d device) string { return d.product }), ", ")
}

// different are the different values of n ranks in alphabetical order, none if some rank has none.
func different(ranks map[int]device, n int, of func(device) string) []string {
	values := map[string]bool{}
	for _, d := range ranks {
		values[of(d)] = true
	}
	if len(ranks) != n || values[""] {
		return nil
	}
	return slices.Sorted(maps.Keys(values))
}

// learn reads how a program was started, "nThread 1 nGpus 8 ...", and the version of its library, "nccl-library=22907".
func (s *System) learn(words []string) {
	for i, word := range words {
		if i+1 < len(words) && (word == "nThread" || word == "nGpus") {
			if n, err := strconv.Atoi(words[i+1]); err == nil && n > 0 && word == "nThread" {
				s.Threads = n
			} else if err == nil && n > 0 {
				s.GPUsPerThread = n
			}
		}
		if number, ok := strings.CutPrefix(word, "nccl-library="); ok {
			n, _ := strconv.Atoi(number)
			s.NCCL = versionText(n)
		}
	}
}

// versionText is 2.29.7 for 22907, and "" for anything but a version since 2.9: a log may have any.
func versionText(n int) string {
	if n < 20900 || n >= 100000 {
		return ""
	}
	return nccl.VersionText(n)
}
