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
		"refused":    {"failed", "Traceback\nddlemu: recv: NCCL has no tags: use tag 0"},
		"other":      {"failed", "Segmentation fault"},
		"unlisted":   {"failed", "Traceback\nAssertionError: 1 != 2\n"},
		"gloo too":   {"failed", "torch's own error"},
		"now passes": {"passed", ""},
		"skipped":    {"skipped", ""},
	}
	want := map[string]string{"refused": "no tags", "other": "no tags", "now passes": "no tags", "skipped": "no tags"}
	gloo := map[string]result{"gloo too": {"failed", ""}, "good": {"passed", ""}, "absent": {"passed", ""}}
	wrong := judge(got, want, gloo)
	if expect := []string{
		"absent did not run, and passes with gloo",
		"now passes passed, but is listed as refused",
		`other failed, and not with "no tags": Segmentation fault`,
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

func TestReadJUnit(t *testing.T) {
	got, err := readJUnit([]byte(`<testsuites><testsuite>
		<testcase classname="driver.T" name="test_a"/>
		<testcase classname="driver.T" name="test_b"><failure message="m">long</failure></testcase>
		<testcase classname="driver.T" name="test_c"><skipped message="no GPU"/></testcase>
		<testcase classname="driver.T" name="test_d"><error message="m">setup</error></testcase>
	</testsuite></testsuites>`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]result{"T.test_a": {"passed", ""}, "T.test_b": {"failed", "m\nlong"}, "T.test_c": {"skipped", "no GPU"},
		"T.test_d": {"failed", "m\nsetup"}} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}
