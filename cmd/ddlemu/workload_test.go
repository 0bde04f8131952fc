// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// docsPage is what a page of docs says: files in it, and commands with what they print.
type docsPage struct {
	files    map[string]string
	commands []docsCommand
}

type docsCommand struct{ line, output string }

// readPage finds blocks of code. One after "in `NAME`:" is a file; one without a language after indented commands is
// what the last of them prints.
func readPage(t *testing.T, path string) docsPage {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := docsPage{files: map[string]string{}}
	file, block, inBlock, language := "", "", false, ""
	for _, line := range strings.SplitAfter(string(data), "\n") {
		switch text := strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(text, "```") && inBlock:
			if inBlock = false; file != "" {
				p.files[file], file = block, ""
			} else if n := len(p.commands); language == "" && n > 0 && p.commands[n-1].output == "" {
				p.commands[n-1].output = block
			}
		case strings.HasPrefix(text, "```"):
			block, inBlock, language = "", true, text[3:]
		case inBlock:
			block += line
		case strings.HasPrefix(text, "    ddlemu "):
			p.commands = append(p.commands, docsCommand{line: strings.TrimSpace(text)})
		case strings.HasSuffix(text, "`:"):
			words := strings.Split(text, "`")
			file = words[len(words)-2]
		}
	}
	return p
}

// check runs a command of a page, and compares what it prints with what the page says, if it says something.
func (c docsCommand) check(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	g := &cli.Global{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
		Getenv: func(string) string { return "" }}
	root := newRootCommand(g)
	var args []string
	for _, arg := range strings.Fields(c.line)[1:] {
		files := []string{arg}
		if strings.Contains(arg, "*") { // as the shell does
			var err error
			if files, err = filepath.Glob(arg); err != nil || len(files) == 0 {
				t.Errorf("%s: %s names no file", c.line, arg)
			}
		}
		args = append(args, files...)
	}
	root.SetArgs(args)
	cli.PrintError(g, args, root.Execute())
	if c.output != "" && out.String() != c.output {
		t.Errorf("%s\nprints\n%s\nthe page has\n%s", c.line, out.String(), c.output)
	}
	if c.output == "" && strings.Contains(out.String(), "ddlemu: ") {
		t.Errorf("%s\n%s", c.line, out.String())
	}
}

// The commands of docs/workloads.md print what the page says.
func TestWorkloadsPage(t *testing.T) {
	p := readPage(t, "../../docs/workloads.md")
	if len(p.commands) < 8 || len(p.files) < 2 {
		t.Fatalf("found only %d commands and %d files", len(p.commands), len(p.files))
	}
	t.Chdir(t.TempDir())
	for name, text := range p.files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range p.commands {
		c.check(t)
	}
}

// The commands of docs/formats.md that convert a file of this repository work, and print what the page says.
func TestFormatsPage(t *testing.T) {
	p := readPage(t, "../../docs/formats.md")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(filepath.Join(root, "shaper"), "shaper"); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range p.commands {
		if strings.Contains(c.line, "convert shaper/") || strings.Contains(c.line, "convert ddp.jsonl") {
			c.check(t)
			checked++
		}
	}
	if checked < 7 {
		t.Fatalf("found only %d commands that convert a file of this repository", checked)
	}
}
