// SPDX-License-Identifier: Apache-2.0

// Package built leads the tests in this folder to what `make build` made, and gives
// what they start an environment.
package built

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Path is the absolute path of a file or folder in build/, for the packages right under
// test/. A missing one fails the test: there is nothing to skip for.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "build"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run `make build plugin-faults` first", err)
	}
	return path
}

// Environ is this process's environment without what it says of NCCL and ddlemu.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NCCL_") || strings.HasPrefix(v, "DDLEMU_")
	})
}
