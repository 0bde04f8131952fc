// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed expected
var expectedFiles embed.FS

// result is how a test ended: "passed", "failed" or "skipped", and what a failed one said.
type result struct {
	state, text string
}

// expected returns what a suite's failing tests say in an environment, by their names. A line of the file is
// "name: text", or "name [environment ...]: text".
func expected(suite, environment string) (map[string]string, error) {
	want := map[string]string{}
	content, err := expectedFiles.ReadFile("expected/" + suite + ".txt")
	if err != nil {
		return want, nil // nothing is expected to fail
	}
	for _, line := range strings.Split(string(content), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, text, found := strings.Cut(line, ": ")
		if !found {
			return nil, fmt.Errorf("expected/%s.txt: %q is not `name: text`", suite, line)
		}
		name, in, some := strings.Cut(strings.TrimSuffix(name, "]"), " [")
		if !some || slices.Contains(strings.Fields(in), environment) {
			want[name] = text
		}
	}
	return want, nil
}

// judge compares results with the expected ones, and with the results of gloo if there are any. It returns the
// problems, one line per test.
func judge(got map[string]result, want map[string]string, gloo map[string]result) (wrong []string) {
	for name, r := range got {
		text, listed := want[name]
		switch {
		case r.state == "failed" && gloo[name].state == "failed":
		case r.state == "failed" && !listed:
			wrong = append(wrong, name+" failed: "+lastLine(r.text))
		case r.state == "failed" && !strings.Contains(r.text, text):
			wrong = append(wrong, fmt.Sprintf("%s failed, and not with %q: %s", name, text, lastLine(r.text)))
		case r.state == "passed" && listed:
			wrong = append(wrong, name+" passed, but is listed as refused")
		}
	}
	for name, r := range gloo {
		if _, ran := got[name]; !ran && r.state == "passed" {
			wrong = append(wrong, name+" did not run, and passes with gloo")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// lastLine returns the last line of a text that is not empty.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// tail returns the last lines of a text.
func tail(text string) string {
	const most = 30
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
