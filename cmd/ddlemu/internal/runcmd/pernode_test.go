// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

func TestFill(t *testing.T) {
	got := strings.Join(fill([]string{"run", "--n={nodes}", "{node}{node}", "{master}:1", "{gpus}", "{Node}", "{}"}, 3,
		8, 2), " ")
	if want := "run --n=8 33 node0:1 2 {Node} {}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Names are coloured only on a terminal, and not with NO_COLOR.
func TestPrefix(t *testing.T) {
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	defer tty.Close()
	noColor := ""
	g, p := &cli.Global{Getenv: func(string) string { return noColor }}, &perNode{nodes: 11}
	if got := p.prefix(g, &bytes.Buffer{}, 1); got != "node1  | " {
		t.Errorf("into a buffer: %q", got)
	}
	if got := p.prefix(g, tty, 10); got != "\x1b[36mnode10 |\x1b[0m " {
		t.Errorf("on a terminal: %q", got)
	}
	noColor = "1"
	if got := p.prefix(g, tty, 10); got != "node10 | " {
		t.Errorf("with NO_COLOR: %q", got)
	}
}
