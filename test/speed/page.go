// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// The figures are between these lines of the page; the rest is written by hand.
const (
	markBegin = "<!-- figures of make bench -->"
	markEnd   = "<!-- end of figures -->"
)

// section is a table under a heading.
type section struct {
	title string
	table table.Writer
	notes []string
}

func newSection(title string, columns ...any) *section {
	s := &section{title: title, table: table.NewWriter()}
	s.table.AppendHeader(columns)
	return s
}

func (s *section) row(cells ...any) { s.table.AppendRow(cells) }

func (s *section) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

func (s *section) markdown() string {
	return fmt.Sprintf("### %s\n\n%s\n\n%s", s.title, s.table.RenderMarkdown(), paragraphs(s.notes))
}

func (s *section) text() string {
	return fmt.Sprintf("%s\n%s\n%s", s.title, s.table.Render(), paragraphs(s.notes))
}

func paragraphs(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return strings.Join(notes, "\n\n") + "\n\n"
}

// replace puts figures between the marker lines of page.
func replace(page, figures string) (string, error) {
	before, rest, ok := strings.Cut(page, markBegin)
	_, after, ok2 := strings.Cut(rest, markEnd)
	if !ok || !ok2 {
		return "", fmt.Errorf("the page has no lines %q and %q to put the figures between", markBegin, markEnd)
	}
	return before + markBegin + "\n\n" + figures + markEnd + after, nil
}

// machine describes this machine.
func machine() string {
	model := "processor not known"
	text, err := os.ReadFile("/proc/cpuinfo")
	for _, line := range strings.Split(string(text), "\n") {
		if key, value, ok := strings.Cut(line, ":"); err == nil && ok && strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		release = []byte("not known")
	}
	return fmt.Sprintf("%s, %d cores, Linux %s", model, runtime.NumCPU(), strings.TrimSpace(string(release)))
}

// sizeText formats a size for nccl-tests.
func sizeText(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%dM", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%dK", n>>10)
	}
	return fmt.Sprint(n)
}
