// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// world runs ddlemu with a separate folder and environment.
type world struct {
	t        *testing.T
	dir      string
	env      map[string]string
	out, err bytes.Buffer
}

func newWorld(t *testing.T) *world {
	dir := filepath.Join(t.TempDir(), "fabrics")
	return &world{t: t, dir: dir, env: map[string]string{cli.DirEnv: dir}}
}

// global returns a new global, as each process has one.
func (w *world) global() *cli.Global {
	return &cli.Global{
		Stdin: strings.NewReader(""), Stdout: &w.out, Stderr: &w.err,
		Getenv: func(name string) string { return w.env[name] },
	}
}

// run runs ddlemu with these arguments and returns its exit status and output.
func (w *world) run(args ...string) (status int, stdout, stderr string) {
	w.t.Helper()
	w.out.Reset()
	w.err.Reset()
	status = run(context.Background(), w.global(), args)
	return status, w.out.String(), w.err.String()
}

// must runs ddlemu, fails unless it succeeds, and returns its output.
func (w *world) must(args ...string) string {
	w.t.Helper()
	status, stdout, stderr := w.run(args...)
	if status != cli.ExitOK {
		w.t.Fatalf("ddlemu %s: exit status %d: %s", strings.Join(args, " "), status, stderr)
	}
	return stdout
}
