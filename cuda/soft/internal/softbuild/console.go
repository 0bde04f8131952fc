// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// console says what is being done: one line per step, and a bar while something long runs, if a person watches.
type console struct {
	out   io.Writer
	watch bool
}

func newConsole(out io.Writer) *console {
	f, ok := out.(*os.File)
	return &console{out: out, watch: ok && term.IsTerminal(int(f.Fd()))}
}

func (c *console) say(format string, args ...any) {
	fmt.Fprintf(c.out, "softcuda: "+format+"\n", args...)
}

// bar shows progress from 0 to total; advance sets it, done takes the bar away.
func (c *console) bar(what string, total int) (advance func(int), done func()) {
	bar := progressbar.NewOptions(total,
		progressbar.OptionSetWriter(c.out),
		progressbar.OptionSetVisibility(c.watch),
		progressbar.OptionSetDescription("softcuda: "+what),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(30),
	)
	return func(n int) { _ = bar.Set(n) }, func() { _ = bar.Finish() }
}
