// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
)

// AddQuietFlag adds --quiet to a command that shows progress.
func (g *Global) AddQuietFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&g.Quiet, "quiet", false, "do not show progress")
}

// ShowProgress shows the progress of a command on standard error until stop is called. Until then, text that is written
// to the outputs comes above the bar.
func (g *Global) ShowProgress(name string) (d *progress.Display, stop func()) {
	out, errs := g.Stdout, g.Stderr
	d = progress.Start(progress.Options{
		Name: name, To: errs, Terminal: IsTerminal(errs), Quiet: g.Quiet, Width: func() int { return Columns(errs) },
	})
	g.Stdout, g.Stderr = d.Over(out), d.Over(errs)
	return d, func() {
		d.Stop()
		g.Stdout, g.Stderr = out, errs
	}
}

// file is the file that a writer writes to, nil if there is none.
func file(w io.Writer) *os.File {
	for {
		switch x := w.(type) {
		case *os.File:
			return x
		case interface{ Unwrap() io.Writer }:
			w = x.Unwrap()
		default:
			return nil
		}
	}
}

// IsTerminal says whether a stream of this process is a terminal.
func IsTerminal(w io.Writer) bool {
	f := file(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// Columns is the width of the terminal that w writes to.
func Columns(w io.Writer) int {
	if f := file(w); f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}
