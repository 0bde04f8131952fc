// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal in which a command runs, and what a user would see there.
type terminal struct {
	*testing.T
	cmd         *exec.Cmd
	master, tty *os.File
	before      unix.Termios // of the terminal, before the command
	drawn       chan struct{}

	mu     sync.Mutex
	screen *vt.Emulator
}

// inTerminal starts a command in a terminal of this size.
func inTerminal(t *testing.T, cmd *exec.Cmd, width, height int) *terminal {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{T: t, cmd: cmd, master: master, tty: tty, screen: vt.NewEmulator(width, height),
		drawn: make(chan struct{})}
	x.resize(width, height)
	x.before = x.modes()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(master, x.screen) }() // what a terminal answers, until it is closed
	go x.draw()
	t.Cleanup(func() {
		_, _ = cmd.Process.Kill(), cmd.Wait() // it may have ended
		tty.Close()
		<-x.drawn
		master.Close()
		x.screen.Close()
	})
	return x
}

// draw shows what the command writes, until all of its ends are closed.
func (x *terminal) draw() {
	defer close(x.drawn)
	buffer := make([]byte, 1<<16)
	for {
		n, err := x.master.Read(buffer)
		x.mu.Lock()
		_, _ = x.screen.Write(buffer[:n]) // it is memory
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (x *terminal) modes() unix.Termios {
	x.Helper()
	m, err := unix.IoctlGetTermios(int(x.tty.Fd()), unix.TCGETS)
	if err != nil {
		x.Fatal(err)
	}
	return *m
}

// resize changes the size of the window.
func (x *terminal) resize(width, height int) {
	x.Helper()
	x.mu.Lock()
	x.screen.Resize(width, height)
	x.mu.Unlock()
	if err := pty.Setsize(x.tty, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}); err != nil {
		x.Fatal(err)
	}
}

// press types keys.
func (x *terminal) press(keys string) {
	x.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.Fatal(err)
	}
}

// text is what the terminal shows.
func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	lines := strings.Split(ansi.Strip(x.screen.Render()), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \r")
	}
	return strings.Join(lines, "\n")
}

// await waits until the terminal shows what is wanted.
func (x *terminal) await(what string, is func(text string) bool) {
	x.Helper()
	for end := time.Now().Add(30 * time.Second); !is(x.text()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			x.Fatalf("%s: not in 30 s:\n%s", what, x.text())
		}
	}
}

// awaitText waits until the terminal shows all of these.
func (x *terminal) awaitText(texts ...string) {
	x.Helper()
	x.await(strings.Join(texts, " and "), func(text string) bool {
		for _, want := range texts {
			if !strings.Contains(text, want) {
				return false
			}
		}
		return true
	})
}

// ended waits for the end of the command. Its status must be 0, and the terminal must be as it was before.
func (x *terminal) ended() {
	x.Helper()
	timer := time.AfterFunc(10*time.Second, func() { _ = x.cmd.Process.Kill() })
	err := x.cmd.Wait()
	if !timer.Stop() {
		x.Fatalf("it has not ended after 10 s:\n%s", x.text())
	}
	if err != nil {
		x.Errorf("it ended with %v", err)
	}
	if now := x.modes(); now != x.before {
		x.Errorf("the terminal's modes are %+v, they were %+v", now, x.before)
	}
	x.await("the user's own screen, with a cursor", func(string) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return !x.screen.IsAltScreen() && !x.screen.CursorHidden()
	})
}
