// SPDX-License-Identifier: Apache-2.0

// Package built finds what `make build` made, and gives the programs that tests start a
// clean environment.
package built

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Path is the absolute path of a file or folder in build/. It is for packages directly under
// test/. If the file is missing, the test fails.
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

// Environ is this process's environment without the variables of NCCL and ddlemu, and without the user of sudo, to whom
// ddlemu would give its files.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NCCL_") || strings.HasPrefix(v, "DDLEMU_") || strings.HasPrefix(v, "SUDO_UID=")
	})
}
