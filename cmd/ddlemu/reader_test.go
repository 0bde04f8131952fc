// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// A command whose reader has ended ends without a word, as others do.
func TestReaderEnds(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	for _, args := range [][]string{{"profiles"}, {"profiles", "--json"}, {"workload", "--help"}} {
		var stderr bytes.Buffer
		cmd := exec.Command("ddlemu", args...)
		cmd.Stdout, cmd.Stderr = w, &stderr
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != cli.ExitNoReader &&
			!cmd.ProcessState.Sys().(interface{ Signaled() bool }).Signaled() {
			t.Errorf("%v: %v", args, err)
		}
		if stderr.Len() > 0 {
			t.Errorf("%v says %q", args, stderr.String())
		}
	}
}

// A write to another pipe without a reader, such as that of a rank that has ended, does not end the command.
func TestOtherPipeWithoutReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	var stopped bool
	out := &checkedWriter{to: &bytes.Buffer{}, broken: func() { stopped = true }}
	_, werr := w.Write([]byte("x"))
	if _, err := out.Write([]byte("x")); err != nil || werr == nil || stopped {
		t.Errorf("%v, %v, stopped %v", werr, err, stopped)
	}
	out.to = w
	if _, err := out.Write([]byte("x")); err == nil || !stopped {
		t.Errorf("%v, stopped %v", err, stopped)
	}
}
