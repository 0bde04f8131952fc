// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	got := map[string]result{
		"good":       {"passed", ""},
		"refused":    {"failed", "Traceback\nddlemu: recv: NCCL cannot receive from any source"},
		"other":      {"failed", "Segmentation fault"},
		"unlisted":   {"failed", "Traceback\nAssertionError: 1 != 2\n"},
		"gloo too":   {"failed", "torch's own error"},
		"now passes": {"passed", ""},
		"skipped":    {"skipped", ""},
	}
	want := map[string]string{"refused": "any source", "other": "any source", "now passes": "any source",
		"skipped": "any source"}
	gloo := map[string]result{"gloo too": {"failed", ""}, "good": {"passed", ""}, "absent": {"passed", ""}}
	wrong := judge(got, want, gloo)
	if expect := []string{
		"absent did not run, and passes with gloo",
		"now passes passed, but is listed as refused",
		`other failed, and not with "any source": Segmentation fault`,
		"unlisted failed: AssertionError: 1 != 2",
	}; !slices.Equal(wrong, expect) {
		t.Errorf("got %q, want %q", wrong, expect)
	}
}

func TestExpectedFiles(t *testing.T) {
	entries, err := expectedFiles.ReadDir("expected")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".txt")
		want, err := expected(name, "sid")
		if err != nil || len(want) == 0 {
			t.Errorf("%s: %d tests, %v", entry.Name(), len(want), err)
		}
		for test, text := range want {
			if strings.ContainsAny(test, "[] ") || text == "" {
				t.Errorf("%s: %q: %q", entry.Name(), test, text)
			}
		}
		if !slices.ContainsFunc(suites, func(s suite) bool { return s.name == name }) {
			t.Errorf("%s: there is no such suite", entry.Name())
		}
	}
}

func TestReadPytest(t *testing.T) {
	got, err := readPytest([]byte(`{"name": "T.test_a", "state": "started", "text": ""}
{"name": "T.test_a", "state": "passed", "text": ""}
{"name": "T.test_b", "state": "started", "text": ""}
{"name": "T.test_b", "state": "failed", "text": "m\nlong"}
{"name": "T.test_b", "state": "failed", "text": "teardown"}
{"name": "T.test_c", "state": "started", "text": ""}
{"name": "T.test_c", "state": "skipped", "text": "no GPU"}
{"name": "T.test_d", "state": "started", "text": ""}
{"name": "T.test_d", "state": "passed", "text": ""}
{"name": "T.test_d", "state": "failed", "text": "teardown"}
{"name": "T.test_e", "state": "started", "text": ""}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]result{"T.test_a": {"passed", ""}, "T.test_b": {"failed", "m\nlong"},
		"T.test_c": {"skipped", "no GPU"},
		"T.test_d": {"failed", "teardown"}, "T.test_e": {"failed", neverEnded}} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	if _, err := readPytest([]byte(`{"name": "T.te`)); err == nil {
		t.Error("half a line is no error")
	}
}
