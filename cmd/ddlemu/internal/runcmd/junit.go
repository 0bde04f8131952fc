// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// junitPackage is the package of all suites.
const junitPackage = "ddlemu"

// junitFile is the file of --junit.
type junitFile struct {
	path    string
	started time.Time
}

// addFlag adds the flag to fs.
func (j *junitFile) addFlag(fs *pflag.FlagSet, row string) {
	fs.StringVar(&j.path, "junit", "", "`file` for the results as JUnit XML, with a test case for each "+row+
		"; it is replaced")
}

// begin refuses, before the work is done, a file that cannot be written.
func (j *junitFile) begin() error {
	j.started = time.Now()
	if j.path == "" {
		return nil
	}
	if info, err := os.Lstat(j.path); err == nil && !info.Mode().IsRegular() {
		return cli.BadInput("--junit %s: it is no regular file: name another one", j.path)
	}
	f, err := cli.CreateBeside(j.path)
	if err != nil {
		return cli.BadInput("--junit %s: %w", j.path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// write replaces the file by s, as a whole or not at all.
func (j *junitFile) write(s junit.Suite) error {
	s.Package, s.Started, s.Took = junitPackage, j.started, time.Since(j.started)
	s.Properties = append(s.Properties, junit.Property{Name: "ddlemu", Value: cli.Version()})
	const mode = 0o644 // readable for the CI's runner, which may be another user
	if err := cli.ReplaceFile(j.path, mode, func(w io.Writer) error { return junit.Write(w, s) }); err != nil {
		return fmt.Errorf("--junit %s: %w", j.path, err)
	}
	return nil
}

// invalidProblem is the error of a row of a run that is INVALID.
func invalidProblem(cause verdict.Cause, summary string, reasons []string) *junit.Problem {
	return &junit.Problem{Type: string(cause), Message: "INVALID: " + summary, Text: strings.Join(reasons, "\n")}
}

// failedCase is a test case for a run that failed or was interrupted, so that no report of it is without an error.
func failedCase(class string, err error) junit.Case {
	text := cli.SayInterrupted(strings.Join(strings.Fields(err.Error()), " "))
	return junit.Case{Class: class, Name: "run", Error: &junit.Problem{Type: "run", Message: text}}
}

// ending is the test case of a run that did not end well: it failed or was interrupted (err), or its budget was spent
// before all was measured. Nobody knows then whether the rows would have been VALID.
func ending(class, word, summary string, err error) []junit.Case {
	switch {
	case err != nil:
		return []junit.Case{failedCase(class, err)}
	case word == verdict.Incomplete:
		return []junit.Case{
			{Class: class, Name: "run", Error: &junit.Problem{Type: verdict.Incomplete, Message: summary}}}
	}
	return nil
}

// properties describe a run: pairs of a name and a value, its verdict and its fabric. A name without a value is left
// out.
func properties(word string, cause verdict.Cause, summary string, in *configs.InForce, pairs ...string) (
	out []junit.Property) {
	pairs = slices.Concat(pairs, []string{"verdict", word, "cause", string(cause), "summary", summary}, in.Properties())
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, junit.Property{Name: pairs[i], Value: pairs[i+1]})
		}
	}
	return out
}
