// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository's folder.
const root = "../.."

// files returns the files of the repository whose path matches, by folder. What the build made is not of it.
func files(t *testing.T, match func(path string) bool) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := filepath.ToSlash(path); {
		case err != nil:
			return err
		case d.IsDir() && (name == root+"/build" || d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.Type().IsRegular() && match(name):
			all[filepath.Dir(path)] = append(all[filepath.Dir(path)], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// starts are all programs that tests start, with the place of each.
func starts(t *testing.T) []start {
	t.Helper()
	all := inScripts(t)
	for _, paths := range files(t, isTest) {
		found, lost, err := inGo(paths)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
		for _, at := range lost {
			t.Errorf("%s: the code does not say which program this starts: give it to needs.Program", at)
		}
	}
	return all
}

// isTest reports that a file of Go is of a test, or of a package that only tests import.
func isTest(path string) bool {
	return strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, root+"/test/needs/") ||
		regexp.MustCompile(`/test/(built|measure|recorded)/.*\.go$`).MatchString(path)
}

// ours are programs that tests start and that no Debian package has.
var ours = map[string]string{
	"go":         "README.md asks for it",
	"gofmt":      "it comes with Go",
	"ddlemu":     "make build makes it",
	"ddlemu-ssh": "make build makes it",
	// cmd/ddlemu/participant_test.go
	"participant": "a part of the test's own program",
	"deepspeed":   ".ci/pypi installs it",
	"nvidia-smi":  "test/gpu asks whether it is there",
	"cc":          "test/install checks that it is missing",
	// Tests of what happens if a program does not exist.
	"/no/such/program": "", "no-such-program": "", "no-such-command": "", "nosuch": "",
}

// onPath returns the name of a program on PATH that a path stands for. It is empty for a file of the project, of the
// build or of the test.
func onPath(program string) string {
	dir, base := filepath.Split(program)
	switch {
	case slices.Contains([]string{"", "/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"}, dir):
		return base
	case filepath.IsAbs(program) && !strings.HasPrefix(program, "/proc/"):
		return program
	}
	return ""
}

// Each program that a test starts is of Debian, of the packages that README asks for, or of those that `make test`
// installs.
func TestProgramsAreInTheList(t *testing.T) {
	for _, s := range starts(t) {
		program := onPath(s.program)
		if _, known := ours[program]; known || program == "" {
			continue
		}
		pkg, err := Package(program)
		if err != nil {
			t.Fatal(err)
		}
		if pkg == "" {
			t.Errorf(
				"%s starts %q, which is not in the lists for tests of packages.txt: add it with its Debian package",
				strings.TrimPrefix(s.at, root+"/"), program)
		}
	}
}

// A test starts each program of the lists that only tests need. So the search finds what it should, and the lists have
// nothing else.
func TestProgramsAreStarted(t *testing.T) {
	started := map[string]bool{}
	for _, s := range starts(t) {
		started[onPath(s.program)] = true
	}
	lines, err := Lines()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if (l.List == "test" || l.List == "debian") && !started[l.Program] {
			t.Errorf("packages.txt has %s for the tests, but no test starts it", l.Program)
		}
	}
}

// A program is of one package, on every list. On Debian that package has it.
func TestPackagesOfPrograms(t *testing.T) {
	lines, err := Lines()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for i, l := range lines {
		if p, seen := of[l.Program]; seen && p != l.Package && l.Program != "-" {
			t.Errorf("packages.txt: %s is of %s and of %s", l.Program, p, l.Package)
		}
		if slices.Index(lines, l) != i {
			t.Errorf("packages.txt: list %s has %s twice", l.List, l.Program)
		}
		of[l.Program] = l.Package
	}
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Log("this machine has no Debian whose packages could be asked")
		return
	}
	for _, l := range lines {
		if l.List == "debian" {
			out, err := exec.Command("dpkg-query", "-W", "-f", "${Priority}", l.Package).Output()
			if priority := string(out); err != nil || priority != "required" && l.Package != "apt" {
				t.Errorf("package %s has the priority %s (%v): not every Debian has it", l.Package, priority, err)
			}
		}
	}
}

// README asks for the packages of the list readme, and for Go, and says what the build installs besides.
func TestReadmeAsksForTheList(t *testing.T) {
	asked, err := Readme(root)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := Lines()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, l := range lines {
		if l.List == "build" && !slices.Contains(asked, l.Package) && !strings.Contains(string(page), l.Package) {
			t.Errorf("README.md does not say that the build installs %s", l.Package)
		}
		if l.List == "readme" && !slices.Contains(want, l.Package) {
			want = append(want, l.Package)
		}
	}
	slices.Sort(want)
	slices.Sort(asked)
	if !slices.Equal(asked, want) {
		t.Errorf("README.md asks for %q, the list readme of packages.txt has %q", asked, want)
	}
}
