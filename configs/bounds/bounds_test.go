// SPDX-License-Identifier: Apache-2.0

package bounds

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBudget(t *testing.T) {
	var b Budget
	if err := b.Make(free/8, 8); err != nil {
		t.Errorf("what any file may ask for: %v", err)
	}
	if err := b.Make(1, 1); err == nil || !strings.Contains(err.Error(), "32 MiB") {
		t.Errorf("one byte more: %v", err)
	}
	b.Read(2)
	if b.Make(2, perByte) != nil || b.Make(1, 1) == nil {
		t.Error("each byte that was read allows for perByte more")
	}
	for _, n := range []int64{1, math.MaxInt64, -1} {
		if b.Make(n, math.MaxInt64) == nil {
			t.Errorf("%d parts more than the most", n)
		}
	}
	if err := (*Budget)(nil).Make(math.MaxInt64, math.MaxInt64); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}

// A file is read as a whole up to a size; one that is larger, or that never ends, is refused.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(path); string(text) != "abc" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Truncate(path, MaxDocument); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(path); len(text) != MaxDocument || err != nil {
		t.Errorf("the largest: %d bytes, %v", len(text), err)
	}
	if err := os.Truncate(path, MaxDocument+1); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, "/dev/zero"} {
		if _, err := ReadFile(path); err == nil || !strings.HasPrefix(err.Error(), path+" has more than 16 MiB") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "no")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
