// SPDX-License-Identifier: Apache-2.0

package cli

// ExitCheckHelp is the line of a long help with the exit statuses of a command that checks files.
const ExitCheckHelp = "Exit status: 0; 1 if something was found, or on failure; 2 if a file cannot be read; 130 if interrupted."

// CheckOutcome is what a command that checks files has to say at its end.
type CheckOutcome struct {
	Unread []error // files that could not be read
	Found  bool    // something was found, which is printed
}

// Err is nil if all files were read and nothing was found. Findings are no bad input: the command did its work.
func (o *CheckOutcome) Err(g *Global) error {
	if len(o.Unread) > 0 {
		for _, err := range o.Unread[1:] {
			g.Warn("%v", err)
		}
		return o.Unread[0]
	}
	if o.Found {
		return &ExitError{Code: ExitFailure}
	}
	return nil
}
