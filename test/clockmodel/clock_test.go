// SPDX-License-Identifier: Apache-2.0

// Package clockmodel checks the protocol of the virtual clock with SPIN, a model checker: it
// tries every order in which the threads may run.
package clockmodel

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/needs"
)

// The protocol misses no act, and without any one of its rules it does.
func TestProtocol(t *testing.T) {
	needs.Optional(t, "spin")
	model, err := filepath.Abs("clock.pml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ macros, finds string }{
		{"", "errors: 0"},
		{"NO_SEEN", "assertion violated"},
		{"RAISE_FIRST", "assertion violated"},
		{"NO_RECHECK", "assertion violated"},
		{"NO_COMPARE", "assertion violated"},
		{"NO_LOOK_AFTER_RUN", "invalid end state"},
		{"NO_LOOK_AFTER_FAILURE", "invalid end state"},
		{"YIELD_IS_IDLE", "assertion violated"},
		{"DEATH", "errors: 0"},
		{"DEATH RELEASE_FIRST", "assertion violated"},
		{"DEATH NO_RAISE_AFTER_DEATH", "invalid end state"},
	} {
		t.Run("with "+tc.macros, func(t *testing.T) {
			out := verify(t, model, tc.macros)
			if !strings.Contains(out, tc.finds) || strings.Contains(out, "MEMLIM") ||
				strings.Contains(out, "search depth too small") {
				t.Errorf("want %q in\n%s", tc.finds, out)
			}
		})
	}
}

// verify makes the checker of the model with macros, and returns what it prints.
func verify(t *testing.T, model, macros string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	do := func(name string, args ...string) string {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	args := []string{"-a"}
	for macro := range strings.FieldsSeq(macros) {
		args = append(args, "-D"+macro)
	}
	do("spin", append(args, model)...)
	do("gcc", "-O2", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=2000", "-o", "pan", "pan.c")
	return do("./pan", "-m100000")
}
