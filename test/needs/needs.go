// SPDX-License-Identifier: Apache-2.0

// Package needs says what the tests need that is not in the repository: programs, by the list packages.txt with the
// Debian package of each, and what .ci/pypi puts into build/. `make test` installs both.
package needs

import (
	_ "embed" // the list
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:embed packages.txt
var packages string

// Line is a program of the list.
type Line struct {
	List    string // what needs it: readme, debian, or a list that .ci/packages installs
	Program string // a name on PATH, a file by its whole path, or "-" for the package as a whole
	Package string // of Debian
}

// Lines returns the list. A line that is not LIST PROGRAM PACKAGE is an error.
func Lines() ([]Line, error) {
	var lines []Line
	for i, text := range strings.Split(packages, "\n") {
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		words := strings.Split(text, " ")
		if len(words) != 3 || slices.Contains(words, "") {
			return nil, fmt.Errorf("packages.txt:%d: %q is not LIST PROGRAM PACKAGE", i+1, text)
		}
		lines = append(lines, Line{words[0], words[1], words[2]})
	}
	return lines, nil
}

// forTests are the lists of which a test may start a program: `make test` has installed them.
var forTests = []string{"readme", "debian", "build", "test", "pypi"}

// Package returns the Debian package of a program that a test may start. It is empty if the program is not in the
// lists for tests.
func Package(program string) (string, error) {
	lines, err := Lines()
	if err != nil {
		return "", err
	}
	for _, l := range lines {
		if l.Program == program && slices.Contains(forTests, l.List) {
			return l.Package, nil
		}
	}
	return "", nil
}

// Program returns the path of a program, or of a file that is named by its whole path. If it is missing, the test
// fails and names the Debian package.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, why := find(t, name)
	if why != "" {
		t.Fatal(why)
	}
	return path
}

// Optional is Program for a test which may be skipped on a machine that has not run `make test`. On CI, where the
// variable CI is set, it fails.
func Optional(t testing.TB, name string) string {
	t.Helper()
	path, why := find(t, name)
	if why != "" {
		Skip(t, why)
	}
	return path
}

// find returns the path of a program, or why it cannot be used.
func find(t testing.TB, name string) (path, why string) {
	t.Helper()
	pkg, err := Package(name)
	if err != nil {
		t.Fatal(err)
	}
	if pkg == "" {
		t.Fatalf("%s is not in the lists for tests of test/needs/packages.txt: add it with its Debian package", name)
	}
	path, err = exec.LookPath(name)
	if filepath.IsAbs(name) {
		path = name
		_, err = os.Stat(name)
	}
	if err != nil {
		return "", fmt.Sprintf("%s is not installed: apt-get install %s (make test does it)", name, pkg)
	}
	return path, ""
}

// PyPI skips the test if path, a file that .ci/pypi puts into build/, is missing. On CI it fails.
func PyPI(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		Skip(t, fmt.Sprintf("%v: .ci/pypi installs it from PyPI (make test does it)", err))
	}
}

// Root skips the test without root. what names a thing that needs root, such as "a time namespace". On CI it fails.
func Root(t testing.TB, what string) {
	t.Helper()
	if os.Getuid() != 0 {
		Skip(t, "root is needed for "+what)
	}
}

// Skip skips the test because something is not installed. On CI it fails.
func Skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED: " + why)
}

// Readme returns the Debian packages that README.md asks for before its two commands; root is the repository's folder.
// It asks for Go too, which is not among them.
func Readme(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return nil, err
	}
	sentence := regexp.MustCompile(`(?m)^On Debian with Go [0-9.]+, (.+), without a GPU:$`).FindSubmatch(text)
	if sentence == nil {
		return nil, errors.New("README.md has no line `On Debian with Go VERSION, PACKAGES, without a GPU:`")
	}
	return regexp.MustCompile(`, | and `).Split(string(sentence[1]), -1), nil
}
