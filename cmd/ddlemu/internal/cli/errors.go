// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Exit statuses.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitInput       = 2 // bad input, no such fabric, or this host lacks something
	ExitInvalid     = 3 // the verdict is INVALID, with --strict; run: no rank took part
	ExitSlower      = 4 // slower than the run of --baseline
	ExitInterrupted = 130
	ExitNoReader    = 128 + int(syscall.SIGPIPE)
)

// Long is a long help, which may begin in a new line, with the exit statuses of most commands and the page about the
// command.
func Long(page, text string) string {
	return strings.TrimPrefix(text, "\n") + "\n\n" + exitHelp + "\nPage: " + page
}

const exitHelp = "Exit status: 0; 1 on failure; 2 for bad input or something that this host lacks; 130 if interrupted."

// InputError is an error that the user can correct: exit status 2.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// BadInput is an InputError with this text.
func BadInput(format string, args ...any) error {
	return &InputError{fmt.Errorf(format, args...)}
}

// ExitError has the exit status of a child. Nothing is printed unless Err is set.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

func (e *ExitError) Unwrap() error { return e.Err }

// InvalidError is a verdict of INVALID or incomplete where figures are wanted that can be trusted: exit status 3.
type InvalidError struct{ Word, Summary string }

func (e *InvalidError) Error() string {
	return "the verdict is " + e.Word + ": " + e.Summary
}

// SlowerError names the times that are slower than the run of --baseline: exit status 4.
type SlowerError struct{ Text string }

func (e *SlowerError) Error() string { return e.Text }

// Interrupted is the error of a command whose context was cancelled.
func Interrupted(err error) error {
	var exit *ExitError
	if errors.Is(err, context.Canceled) || errors.As(err, &exit) {
		return err
	}
	return fmt.Errorf("%w (%w)", context.Canceled, err)
}

// SayInterrupted puts one word for what package context, or the signal that ended it, says.
func SayInterrupted(text string) string {
	words := []string{context.Canceled.Error(), "interrupted"}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		words = append(words, s.String()+" signal received", "interrupted")
	}
	return strings.NewReplacer(words...).Replace(text)
}

// ExitStatus is the exit status for the error of a command.
func ExitStatus(err error) int {
	var (
		exit    *ExitError
		invalid *InvalidError
		slower  *SlowerError
		input   *InputError
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &invalid):
		return ExitInvalid
	case errors.As(err, &slower):
		return ExitSlower
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &input), configs.IsUserError(err), errors.Is(err, state.ErrNotUsable):
		return ExitInput
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrPermission),
		errors.Is(err, syscall.ENOSPC):
		return ExitInput
	}
	return ExitFailure
}

// PrintError writes err to stderr in one line with the cause and the next step, as JSON if the command has --json.
func PrintError(g *Global, args []string, err error) {
	var exit *ExitError
	if err == nil || errors.As(err, &exit) && exit.Err == nil {
		return
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if errors.Is(err, context.Canceled) {
		text = SayInterrupted(text)
	}
	if g.JSON || asksForJSON(args) {
		line, _ := json.Marshal(struct {
			Error      string `json:"error"`
			ExitStatus int    `json:"exit_status"`
		}{text, ExitStatus(err)})
		fmt.Fprintf(g.Stderr, "%s\n", line)
		return
	}
	fmt.Fprintf(g.Stderr, "ddlemu: %s\n", text)
}

// asksForJSON says whether args have --json, for errors that occur before it is parsed.
func asksForJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// FlagError describes a wrong flag of cmd: its name, the problem, and what to do.
func FlagError(cmd *cobra.Command, err error) error {
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := value.GetFlag()
		if want, ok := goTypes[f.Value.Type()]; ok && !errors.Is(err, errTwice) {
			err := BadInput("--%s: %q is not %s", f.Name, value.GetValue(), want)
			if f.Shorthand == OtherFileLetter && cmd.Flags().Lookup("file") != nil {
				err = BadInput("%w: a fabric file is given with -%s or --file", err, FileLetter)
			}
			return err
		}
		return BadInput("--%s: %w", f.Name, value.Unwrap())
	}
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if short := missing.GetSpecifiedShortnames(); short != "" &&
			strings.Contains("gt", missing.GetSpecifiedName()) {
			return BadInput("%w: each rank is a process with one GPU here: give --ranks", err)
		}
		if f := otherCase(cmd, missing); f != nil {
			return BadInput("%w: did you mean -%s, --%s? See `%s --help`", err, f.Shorthand, f.Name, cmd.CommandPath())
		}
		if now := renamed[missing.GetSpecifiedName()]; now != "" && cmd.Flags().Lookup(strings.Fields(now)[0]) != nil {
			return BadInput("--%s is now --%s=VALUE", missing.GetSpecifiedName(), now)
		}
		near := configs.Nearest(missing.GetSpecifiedName(), names)
		if name := otherFlagNames[missing.GetSpecifiedName()]; slices.Contains(names, name) {
			near = []string{name}
		}
		if len(near) > 0 {
			return BadInput("%w: did you mean --%s? See `%s --help`", err, strings.Join(near, " or --"),
				cmd.CommandPath())
		}
	}
	return BadInput("%w: see `%s --help`", err, cmd.CommandPath())
}

// renamed are the flags of earlier versions, and how their value is given now.
var renamed = map[string]string{"tolerance": "require model", "min-busbw": "require busbw", "max-time": "require time",
	"baseline-tolerance": "require baseline"}

// otherFlagNames are the flags by the names that other tools have for them.
var otherFlagNames = map[string]string{
	"rate": "bw", "bandwidth": "bw", "speed": "bw", "delay": "lat", "latency": "lat", "rtt": "lat", "drop": "loss",
	"np": "ranks", "world-size": "ranks", "nnodes": "nodes", "config": "file", "topology": "file", "dev": "link",
}

// otherCase returns the flag of cmd whose letter is the missing one in the other case, nil if there is none.
func otherCase(cmd *cobra.Command, missing *pflag.NotExistError) *pflag.Flag {
	letter := missing.GetSpecifiedName()
	if missing.GetSpecifiedShortnames() == "" || len(letter) != 1 {
		return nil
	}
	other := strings.ToLower(letter)
	if other == letter {
		other = strings.ToUpper(letter)
	}
	return cmd.Flags().ShorthandLookup(other)
}

// goTypes describes the types of flags for which pflag returns an error of Go's parser.
var goTypes = map[string]string{
	"int":      "a whole number",
	"int64":    "a whole number",
	"bool":     "true or false",
	"duration": "a time with its unit, such as 5s",
}

// NoArgs refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return BadInput("%s takes no argument, %q was given: see `%[1]s --help`", cmd.CommandPath(), args[0])
	}
	return nil
}

// Exactly refuses anything but n arguments with this text.
func Exactly(n int, format string, values ...any) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return BadInput(format, values...)
		}
		return nil
	}
}

// AtLeast refuses fewer than n arguments with this text.
func AtLeast(n int, text string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < n {
			return BadInput("%s", text)
		}
		return nil
	}
}

// AtMostOneArg refuses a second argument.
func AtMostOneArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return BadInput("%s takes one argument at most, %q is too many: see `%[1]s --help`", cmd.CommandPath(), args[1])
	}
	return nil
}

// ExitCheckHelp is the line of a long help with the exit statuses of a command that checks files.
const ExitCheckHelp = "Exit status: 0; 1 if something was found, or on failure; 2 if a file cannot be read; 130 if interrupted."

// CheckFiles checks files one after the other. check prints to w what it finds in a file, and returns the document for
// --json and whether the file is good; its error is that of a file that cannot be read. Findings are no bad input: the
// command did its work.
func CheckFiles[D any](g *Global, files []string,
	check func(file string, w io.Writer) (d D, good bool, err error)) error {
	var all []D
	var unread []error
	w, found := g.Stdout, false
	if g.JSON {
		w = io.Discard
	}
	for _, file := range files {
		d, good, err := check(file, w)
		switch {
		case errors.Is(err, context.Canceled):
			return err
		case err != nil:
			unread = append(unread, err)
		}
		found, all = found || err == nil && !good, append(all, d)
	}
	if g.JSON {
		if err := g.PrintJSON(all); err != nil {
			return err
		}
	}
	switch {
	case len(unread) > 0:
		for _, err := range unread[1:] {
			g.Warn("%v", err)
		}
		return unread[0]
	case found:
		return &ExitError{Code: ExitFailure}
	}
	return nil
}
