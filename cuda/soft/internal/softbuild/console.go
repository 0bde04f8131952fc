// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// console prints progress: one line per step and, on a terminal, a bar during long steps.
type console struct {
	out      io.Writer
	terminal bool
	shown    atomic.Bool // there is a bar, in the last line of the terminal
}

func newConsole(out io.Writer) *console {
	f, ok := out.(*os.File)
	return &console{out: out, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

func (c *console) print(format string, args ...any) {
	begin := ""
	if c.shown.Load() {
		begin = "\r\x1b[K" // over the bar
	}
	fmt.Fprintf(c.out, begin+"softcuda: "+format+"\n", args...)
}

// bar shows a progress bar from 0 to total, if no other one is shown. advance sets the progress, done removes the bar.
func (c *console) bar(what string, total int) (advance func(int), done func()) {
	visible := c.terminal && c.shown.CompareAndSwap(false, true)
	bar := progressbar.NewOptions(total,
		progressbar.OptionSetWriter(c.out),
		progressbar.OptionSetVisibility(visible),
		progressbar.OptionSetDescription("softcuda: "+what),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(30),
	)
	return func(n int) { _ = bar.Set(n) }, func() {
		_ = bar.Finish()
		if visible {
			c.shown.Store(false)
		}
	}
}
