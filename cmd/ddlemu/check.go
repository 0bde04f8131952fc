// SPDX-License-Identifier: Apache-2.0

package main

// exitCheckHelp ends the long help of a command that checks files.
const exitCheckHelp = `EXIT STATUS
===========

0 if nothing was found, 1 if something was found, or on failure, 2 if a file could not be
read (the others are checked) or for other bad input, 130 if interrupted.
`

// checkOutcome is what a command that checks files has to say at its end.
type checkOutcome struct {
	unread []error // files that could not be read
	found  bool    // something was found, which is printed
}

// err is nil if all files were read and nothing was found. Findings are no bad input: the command did its work.
func (o *checkOutcome) err(g *global) error {
	if len(o.unread) > 0 {
		for _, err := range o.unread[1:] {
			g.warn("%v", err)
		}
		return o.unread[0]
	}
	if o.found {
		return &exitError{Code: exitFailure}
	}
	return nil
}
