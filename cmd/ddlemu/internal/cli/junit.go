// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
)

// junitPackage is the package of all suites.
const junitPackage = "ddlemu"

// JunitFile is the file of --junit.
type JunitFile struct {
	Path    string
	started time.Time
}

// AddFlag adds the flag to fs.
func (j *JunitFile) AddFlag(fs *pflag.FlagSet, row string) {
	fs.StringVar(&j.Path, "junit", "", "`file` for the results as JUnit XML, with a test case for each "+row+
		"; it is replaced")
}

// Begin refuses, before the work is done, a file that cannot be written.
func (j *JunitFile) Begin() error {
	j.started = time.Now()
	if j.Path == "" {
		return nil
	}
	if info, err := os.Lstat(j.Path); err == nil && !info.Mode().IsRegular() {
		return BadInput("--junit %s: it is no regular file: name another one", j.Path)
	}
	f, err := CreateBeside(j.Path)
	if err != nil {
		return BadInput("--junit %s: %w", j.Path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Write replaces the file by s, as a whole or not at all.
func (j *JunitFile) Write(s junit.Suite) error {
	s.Package, s.Started, s.Took = junitPackage, j.started, time.Since(j.started)
	s.Properties = append(s.Properties, junit.Property{Name: "ddlemu", Value: Version()})
	const mode = 0o644 // readable for the CI's runner, which may be another user
	f, err := CreateBeside(j.Path)
	if err == nil {
		err = Finish(f, j.Path, mode, func(w io.Writer) error { return junit.Write(w, s) })
	}
	if err != nil {
		return fmt.Errorf("--junit %s: %w", j.Path, err)
	}
	return nil
}

// InvalidProblem is the error of a row of a run that is INVALID.
func InvalidProblem(cause verdict.Cause, summary string, reasons []string) *junit.Problem {
	return &junit.Problem{Type: string(cause), Message: "INVALID: " + summary, Text: strings.Join(reasons, "\n")}
}

// FailedCase is a test case for a run that failed or was interrupted, so that no report of it is without an error.
func FailedCase(class string, err error) junit.Case {
	text := SayInterrupted(strings.Join(strings.Fields(err.Error()), " "))
	return junit.Case{Class: class, Name: "run", Error: &junit.Problem{Type: "run", Message: text}}
}

// Ending is the test case of a run that did not end well: it failed or was interrupted (err), or its budget was spent
// before all was measured. Nobody knows then whether the rows would have been VALID.
func Ending(class, word, summary string, err error) []junit.Case {
	switch {
	case err != nil:
		return []junit.Case{FailedCase(class, err)}
	case word == verdict.Incomplete:
		return []junit.Case{
			{Class: class, Name: "run", Error: &junit.Problem{Type: verdict.Incomplete, Message: summary}}}
	}
	return nil
}

// Properties makes properties of pairs of a name and a value; those without a value are left out.
func Properties(pairs ...string) (out []junit.Property) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, junit.Property{Name: pairs[i], Value: pairs[i+1]})
		}
	}
	return out
}
