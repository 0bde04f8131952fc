// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

func TestExitStatus(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("do it: %w", err) }
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{wrap(configs.Errorf("link.mtu", "bad")), 2},
		{wrap(state.ErrNotUsable), 2},
		{wrap(fs.ErrNotExist), 2},
		{wrap(fs.ErrExist), 2},
		{wrap(syscall.ENOSPC), 2},
		{BadInput("no"), 2},
		{wrap(&InvalidError{Word: "INVALID", Summary: "late"}), 3},
		{context.Canceled, 130},
		{Interrupted(errors.New("anything")), 130},
		{Interrupted(&ExitError{Code: 5}), 5},
		{&ExitError{Code: 77}, 77},
		{&ExitError{Code: 2, Err: errors.New("and why")}, 2},
	} {
		if got := ExitStatus(c.err); got != c.want {
			t.Errorf("%v: got %d, want %d", c.err, got, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	for _, c := range []struct {
		err  error
		args []string
		want string
	}{
		{nil, nil, ""},
		{&ExitError{Code: 3}, nil, ""},
		{errors.New("one\n  two"), nil, "ddlemu: one two\n"},
		{BadInput("no %q", "x"), []string{"up", "--json"}, `{"error":"no \"x\"","exit_status":2}` + "\n"},
		{errors.New("no"), []string{"run", "--", "true", "--json"}, "ddlemu: no\n"},
	} {
		var b bytes.Buffer
		PrintError(&Global{Stderr: &b}, c.args, c.err)
		if b.String() != c.want {
			t.Errorf("%v: got %q, want %q", c.err, b.String(), c.want)
		}
	}
}

// Whatever ended the context, the user reads one word.
func TestSayInterrupted(t *testing.T) {
	for _, text := range []string{"run: context canceled", "run: interrupt signal received",
		"run: terminated signal received", "run: hangup signal received"} {
		if got := SayInterrupted(text); got != "run: interrupted" {
			t.Errorf("%q: %q", text, got)
		}
	}
}
