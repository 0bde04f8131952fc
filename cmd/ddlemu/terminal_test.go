// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// On a terminal there is a bar with the time left after a while. An interrupt removes it before the rest is printed.
func TestBarOnATerminal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fabrics")
	up := exec.Command("ddlemu", "--dir", dir, "up", "--profile", "eth1", "--nodes", "2", "--set", "time_scale=64",
		"--no-measure")
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ddlemu", "--dir", dir, "down", "--all").Run() })
	cmd := exec.Command("ddlemu", "--dir", dir, "verify", "--time", "1h")
	screen, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	seen := readUntil(t, screen, "left  ")
	const bar = "ddlemu: verify: "
	if strings.Contains(seen, bar) || !strings.Contains(seen, "verify: links and flows are measured; ") ||
		!strings.Contains(seen, "% |") {
		t.Errorf("the terminal has %q", seen)
	}
	if _, err := screen.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	rest := readUntil(t, screen, "")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != cli.ExitInterrupted {
		t.Errorf("after Ctrl-C: %v", err)
	}
	at := strings.LastIndex(rest, "\x1b[2K\r")
	if at < 0 || strings.Contains(rest[at:], "% |") || !strings.Contains(rest[at:], "verdict: incomplete") {
		t.Errorf("after Ctrl-C the terminal has %q", rest)
	}
}

// A terminal is known as one behind the writers of a command.
func TestIsTerminal(t *testing.T) {
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	defer tty.Close()
	if err := pty.Setsize(screen, &pty.Winsize{Rows: 24, Cols: 133}); err != nil {
		t.Fatal(err)
	}
	g := &cli.Global{Stdout: &checkedWriter{to: tty}, Stderr: tty}
	_, stop := g.ShowProgress("test")
	defer stop()
	if !cli.IsTerminal(g.Stdout) || !cli.IsTerminal(g.Stderr) || cli.Columns(g.Stdout) != 133 {
		t.Errorf("terminals: %v %v, of %d columns", cli.IsTerminal(g.Stdout), cli.IsTerminal(g.Stderr),
			cli.Columns(g.Stdout))
	}
	if cli.IsTerminal(&checkedWriter{to: &bytes.Buffer{}}) {
		t.Error("a buffer is a terminal")
	}
}

// readUntil reads what is written to a terminal until it has a text, or to the end if that is empty.
func readUntil(t *testing.T, screen *os.File, text string) string {
	t.Helper()
	var seen bytes.Buffer
	end := time.AfterFunc(time.Minute, func() { screen.Close() })
	defer end.Stop()
	for b := make([]byte, 4096); text == "" || !strings.Contains(seen.String(), text); {
		n, err := screen.Read(b)
		seen.Write(b[:n])
		if err != nil { // at the end of a terminal this is EIO
			if text != "" {
				t.Fatalf("%v: no %q in %q", err, text, seen.String())
			}
			break
		}
	}
	return seen.String()
}
