// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// inFile returns the programs that a file which is not of Go starts: a shell script, a script of cmd/ddlemu's tests, a
// Python program, or a page with a script that a test runs.
func inFile(path, text string, functions ...string) []string {
	switch {
	case strings.Contains(path, "testdata/script/"):
		return inTestscript(text)
	case strings.HasSuffix(path, ".py"):
		return inPython(text)
	case strings.HasSuffix(path, ".md"):
		var found []string
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
			found = append(found, inShell(block[1])...)
		}
		return found
	case strings.HasSuffix(path, ".sh") || isShell(text):
		return inShell(text, functions...)
	}
	return nil
}

// isShell reports that a text begins as a script of a shell.
func isShell(text string) bool { return regexp.MustCompile(`^#!.*\b(ba|da)?sh\n`).MatchString(text) }

// inTestscript returns the programs of a script of testscript: those of exec, of the command status, and behind "--".
func inTestscript(text string) []string {
	archive := txtar.Parse([]byte(text))
	var found []string
	for line := range strings.Lines(string(archive.Comment)) {
		words := testscriptWords(line)
		for len(words) > 0 && (strings.HasPrefix(words[0], "[") || words[0] == "!" || words[0] == "?") {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "exec":
			found = append(found, programsOf(words[1:], false)...)
		case "status":
			found = append(found, programsOf(words[min(2, len(words)):], false)...)
		case "ddlemu":
			found = append(found, programsOf(words, false)...)
		}
	}
	for _, f := range archive.Files {
		found = append(found, inFile(f.Name, string(f.Data))...)
	}
	return found
}

// testscriptWords splits a line as testscript does: only ' quotes.
func testscriptWords(line string) []string {
	var words []string
	for _, m := range regexp.MustCompile(`(?:'(?:[^']|'')*'|[^\s'])+`).FindAllString(line, -1) {
		if strings.HasPrefix(m, "#") {
			break
		}
		words = append(words, strings.ReplaceAll(m, "'", ""))
	}
	return words
}

// started is a program that Python starts, or looks for.
var started = regexp.MustCompile(
	`(?:subprocess\.\w+|os\.exec\w+|os\.spawn\w+|shutil\.which|os\.system|os\.popen)\(\s*\[?\s*(?:f?["']([^"']+)["'])?([^\n]*)`)

// inPython returns the programs that a Python program starts, where they are written there.
func inPython(text string) []string {
	var found []string
	for _, m := range started.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			found = append(found, strings.Fields(m[1])[0])
		}
		if after := regexp.MustCompile(`["']--["'], ["']([^"']+)["']`).FindStringSubmatch(m[2]); after != nil {
			found = append(found, after[1])
		}
	}
	return found
}

// scripts are the files that tests run and that are not of Go.
func scripts(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, paths := range files(t, func(path string) bool {
		path = strings.TrimPrefix(path, root+"/")
		inTest := strings.HasPrefix(path, "test/") && !strings.HasPrefix(path, "test/lab/") ||
			strings.Contains(path, "/testdata/")
		return inTest && !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "cuda/torch/") ||
			strings.HasPrefix(path, ".ci/") && path != ".ci/run" || path == "docs/ci.md" ||
			strings.HasPrefix(path, "docs/examples/containers/")
	}) {
		all = append(all, paths...)
	}
	slices.Sort(all)
	return all
}

// included are the functions of the script that another includes.
func included(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "test", "gpu", "lib.sh"))
	if err != nil {
		t.Fatal(err)
	}
	run, err := os.ReadFile(filepath.Join(root, "test", "gpu", "run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	return append(read(string(text)).functions, read(string(run)).functions...)
}

// inScripts returns the programs of the scripts.
func inScripts(t *testing.T) []start {
	t.Helper()
	var all []start
	functions := included(t)
	for _, path := range scripts(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range inFile(filepath.ToSlash(path), string(text), functions...) {
			all = append(all, start{p, path})
		}
	}
	return all
}
