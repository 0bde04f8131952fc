// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ddlemu/ddlemu/test/world"
)

// top starts `ddlemu top` in a terminal of this size.
func (w *user) top(width, height int, args ...string) *terminal {
	w.Helper()
	cmd := w.Command(w.Context(), append([]string{"top"}, args...)...)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	return inTerminal(w.T, cmd, width, height)
}

// busy starts a job on the fabric ndr400 that lasts until the end of the test.
func (w *user) busy() {
	w.Helper()
	cmd := w.Command(context.WithoutCancel(w.Context()), "bench", "allreduce", "--fabric", "ndr400", "--ranks", "2",
		"-b", "4M", "-e", "4M", "-n", "20000")
	said := &strings.Builder{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			w.Errorf("the job ended with %v: %s", err, said)
		}
	})
}

var linkRows = regexp.MustCompile(`(?m)^(node\d\.nic\d:\S+) +(?:(\S+) Gbps)?`)

// gbps is the rate in a row of linkRows, in Gb/s; 0 if that has another unit, which is smaller.
func gbps(row []string) float64 {
	rate, _ := strconv.ParseFloat(row[2], 64) // empty
	return rate
}

// linksOn are the names of the links on the screen.
func linksOn(text string) []string {
	var names []string
	for _, row := range linkRows.FindAllStringSubmatch(text, -1) {
		names = append(names, row[1])
	}
	return names
}

// A user looks at a fabric on which a job of real NCCL runs, sorts, filters, makes the window smaller, and quits.
func TestTop(t *testing.T) {
	w := newUser(t)
	// 32 links
	w.Run("up", "--profile", "ndr400", "--nodes", "2", "--set", "nics_per_node=4", "--clock", "virtual", "--no-measure")
	w.busy()
	x := w.top(100, 24, "--interval", "200ms")
	x.awaitText("fabric ndr400: ", "clock virtual at ", " s per real second", " 1 job running", "VALID so far",
		"link 1-18 of 32", "rate↓", " Gbps    400Gbps")
	x.await("the links with the highest rates first", func(text string) bool {
		rates := linkRows.FindAllStringSubmatch(text, -1)
		return len(rates) == 18 && gbps(rates[0]) > 0 &&
			slices.IsSortedFunc(rates, func(a, b []string) int { return cmp.Compare(gbps(b), gbps(a)) })
	})
	x.press("ss")
	x.awaitText("queue↓")
	x.press("SSS")
	x.awaitText("link↑ 1-18 of 32")
	x.await("the links by name", func(text string) bool { return linksOn(text)[0] == "node0.nic0:node1.nic0" })
	x.press("/nic3:")
	x.awaitText("part of a name: nic3:_", "link↑ 1-8 of 8")
	if got := strings.Join(linksOn(x.text()), " "); strings.Count(got, ".nic3:") != 8 {
		t.Errorf("the filter leaves %s", got)
	}
	x.press("\r")
	x.awaitText("names with nic3: (esc: all)")
	x.press("\x1b")
	x.awaitText("link↑ 1-18 of 32")
	x.resize(40, 10)
	x.await("a screen of 40 x 10", func(text string) bool {
		return strings.Contains(text, "1-4 of 32") && strings.Contains(text, "VALID so far") &&
			strings.Contains(text, "\nq quit")
	})
	x.press("\x1b[6~") // Page Down
	x.awaitText("5-8 of 32")
	x.resize(100, 24)
	x.awaitText("link↑ 5-22 of 32")
	x.press("v")
	x.awaitText("job 0: running, 2 joined, 0 left, 0 died; ", "VALID so far")
	x.press("q")
	x.ended()
}

// However top ends, the status is 0 and the terminal is as before.
func TestTopEnds(t *testing.T) {
	w := newUser(t)
	for name, end := range map[string]func(x *terminal){
		"q":       func(x *terminal) { x.press("q") },
		"Ctrl-C":  func(x *terminal) { x.press("\x03") },
		"SIGINT":  func(x *terminal) { _ = x.cmd.Process.Signal(syscall.SIGINT) },
		"SIGTERM": func(x *terminal) { _ = x.cmd.Process.Signal(syscall.SIGTERM) },
		"down": func(x *terminal) {
			w.Run("down")
			x.awaitText("ddlemu: fabric eth1 was taken down")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &user{&world.World{T: t, Dir: w.Dir, Program: w.Program}}
			w.Run("up", "--profile", "eth1", "--clock", "virtual", "--no-measure")
			x := w.top(80, 24)
			x.awaitText("0 of 2 links active", "node0:node1")
			end(x)
			x.ended()
			if name != "down" {
				w.Run("down")
			}
		})
	}
}

// A terminal that cannot show top gets a line that says what to do.
func TestTopInADumbTerminal(t *testing.T) {
	w := newUser(t)
	w.Run("up", "--profile", "eth1", "--clock", "virtual", "--no-measure")
	cmd := w.Command(t.Context(), "top")
	cmd.Env = append(cmd.Env, "TERM=dumb")
	x := inTerminal(t, cmd, 100, 24)
	x.awaitText("ddlemu: top needs a terminal that can move its cursor, and TERM is dumb: use `ddlemu status --watch`")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("it ends with %v, want status 2", err)
	}
}
