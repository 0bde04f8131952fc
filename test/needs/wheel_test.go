// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// programsWithout makes a folder with the programs of this machine but some, in which apt-get only notes in a file that
// it was called, and fails, and id says that the user is root. It returns the folder and the file.
func programsWithout(t *testing.T, hidden ...string) (folder, called string) {
	t.Helper()
	folder, called = t.TempDir(), filepath.Join(t.TempDir(), "called")
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(from) // a folder of PATH need not exist
		for _, e := range entries {
			if name := e.Name(); !slices.Contains(append(hidden, "apt-get", "id"), name) {
				_ = os.Symlink(filepath.Join(from, name), filepath.Join(folder, name)) // the first one of PATH counts
			}
		}
	}
	for name, text := range map[string]string{"apt-get": "echo \"$@\" >> " + called + "; exit 1", "id": "echo 0"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return folder, called
}

// `make wheel` names the packages that are missing, those of the build too, and installs none, also for root. `make
// build`, whose page says that it installs them, does.
func TestWheelInstallsNothing(t *testing.T) {
	for _, tc := range []struct {
		hidden, says string
		targets      []string
		installs     bool
	}{
		{"hatchling", "python3-hatchling", []string{"-o", "build", "wheel"}, false}, // -o: as if build was made
		{"xz", "xz-utils", []string{"wheel"}, false},
		{"xz", "xz-utils", []string{"packages"}, true},
	} {
		folder, called := programsWithout(t, tc.hidden)
		cmd := exec.CommandContext(t.Context(), "make", append(tc.targets, "BUILD="+t.TempDir(), "VERSION=v0.0.1")...)
		cmd.Dir = filepath.Join("..", "..")
		cmd.Env = append(os.Environ(), "PATH="+folder, "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), tc.says) {
			t.Errorf("make %q without %s: %v\n%s", tc.targets, tc.hidden, err, out)
		}
		if text, err := os.ReadFile(called); (err == nil) != tc.installs {
			t.Errorf("make %q without %s: apt-get %s", tc.targets, tc.hidden, text)
		}
	}
}
