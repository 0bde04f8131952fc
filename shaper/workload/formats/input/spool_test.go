// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func readAll(t *testing.T, f File) string {
	t.Helper()
	in, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What is no file is kept in one that has no name; a file is read itself, from where it stands.
func TestSpool(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	f, done, err := Spool(t.Context(), "in", strings.NewReader("hello"), 5)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := readAll(t, f); got != "hello" || f.Size() != 5 {
			t.Errorf("%q of %d bytes", got, f.Size())
		}
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("%s is in $TMPDIR", left[0].Name())
	}
	done()
	if _, _, err := Spool(t.Context(), "in", strings.NewReader("hello"), 4); err == nil ||
		!strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("more than the maximum: %v", err)
	}
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Seek(4, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	f, done, err = Spool(t.Context(), "in", file, 1) // no copy, so no maximum
	if err != nil || readAll(t, f) != "456789" || f.Size() != 6 {
		t.Errorf("%v, %d bytes", err, f.Size())
	}
	done()
}

func TestSpoolFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Spool(ctx, "in", strings.NewReader("hello"), 9); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "no"))
	if _, _, err := Spool(t.Context(), "in", strings.NewReader("hello"), 9); err == nil ||
		!strings.Contains(err.Error(), "keep in in a file") {
		t.Errorf("no folder: %v", err)
	}
}

// Follow says how much of all files has been read.
func TestFollow(t *testing.T) {
	data := make([]byte, 4<<20)
	var parts []float64
	files := Follow(t.Context(), []File{Bytes("a", data), Bytes("b", data)}, func(part float64) { parts = append(parts, part) })
	for _, f := range files {
		readAll(t, f)
	}
	if len(parts) < 4 || !slices.IsSorted(parts) || parts[len(parts)-1] < 0.8 {
		t.Errorf("%v", parts)
	}
	parts = nil
	files = Follow(t.Context(), []File{Bytes("a", data), Bytes("b", data)}, func(part float64) { parts = append(parts, part) })
	for _, part := range []float64{0.5, 0.4, 1} {
		files[1].Progress(part)
	}
	if !slices.Equal(parts, []float64{0.25, 0.5}) {
		t.Errorf("without opening: %v", parts)
	}
}
