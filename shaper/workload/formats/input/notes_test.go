// SPDX-License-Identifier: Apache-2.0

package input

import (
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func TestTitle(t *testing.T) {
	for files, want := range map[int]string{1: "rank0.json", 3: "rank0.json and 2 more"} {
		if got := Title("traces/rank0.json", files); got != want {
			t.Errorf("%d files: %q, want %q", files, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	var notes []string
	note := Counts(&notes)
	note(1, "call", "left out")
	note(0, "line", "cut")
	note(2, "call", "without a type")
	if !slices.Equal(notes, []string{"1 call: left out", "2 calls: without a type"}) {
		t.Errorf("%q", notes)
	}
}

func TestSentences(t *testing.T) {
	var list []string
	missing := Sentences(&list)
	missing(true, "the root of %d calls", 3)
	missing(false, "the type")
	if !slices.Equal(list, []string{"the root of 3 calls"}) {
		t.Errorf("%q", list)
	}
}

func TestNames(t *testing.T) {
	var names Names
	line := "a long line with AllReduce in it"
	first, again := names.Shared(line[17:26]), names.Shared("AllReduce")
	if first != "AllReduce" || unsafe.StringData(first) != unsafe.StringData(again) ||
		unsafe.StringData(first) == unsafe.StringData(line[17:]) {
		t.Errorf("%q and %q are no copy that is shared", first, again)
	}
	names.Shared(strings.Repeat("x", maxName+1))
	if len(names.known) != 1 {
		t.Error("a long text is kept")
	}
	for i := range maxNames + 1 {
		names.Shared(string([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	if len(names.known) != maxNames {
		t.Errorf("%d texts are kept, want %d", len(names.known), maxNames)
	}
}
