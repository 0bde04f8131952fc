// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLines(t *testing.T) {
	for name, data := range map[string][]byte{"plain": []byte("a\nb\n"), "gzip": packed(t, "a\nb")} {
		r, err := Bytes(name, data).Open()
		if err != nil {
			t.Fatal(err)
		}
		l := r.Lines()
		var got string
		for l.Next() {
			got += l.Text()
		}
		if got != "ab" || l.Err() != nil {
			t.Errorf("%s: %q, %v", name, got, l.Err())
		}
	}
}

func TestCutAndLong(t *testing.T) {
	whole := packed(t, strings.Repeat("abc\n", 100_000))
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"cut gzip": {whole[:len(whole)-20], "x:"},
		"a line":   {bytes.Repeat([]byte("x"), maxLine+2), "x:1: the line is longer than 1048576 bytes"},
	} {
		r, err := Bytes("x", test.data).Open()
		if err != nil {
			t.Fatal(err)
		}
		l := r.Lines()
		for l.Next() {
			continue
		}
		if err := l.Err(); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// endless is a text that never ends.
type endless struct{ start io.Reader }

func (e *endless) Read(p []byte) (int, error) {
	if n, _ := e.start.Read(p); n > 0 {
		return n, nil
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// A record without end is refused, in bounded memory, whether it is read or skipped.
func TestJSONRecordIsTooLong(t *testing.T) {
	for _, skip := range []bool{true, false} {
		f := File{Name: "x",
			open: func() (io.ReadCloser, error) { return io.NopCloser(&endless{strings.NewReader(`{"a":"`)}), nil }}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		j := r.JSON()
		err = j.Object(func(string) error {
			if skip {
				return j.Skip()
			}
			var s string
			return j.Decode(&s)
		})
		if err == nil || !strings.Contains(err.Error(), "a record is longer than 16 MiB") {
			t.Errorf("skip %v: %v", skip, err)
		}
	}
}

// A packed file that is cut ends with an error, and not never.
func TestCutPackedJSON(t *testing.T) {
	whole := packed(t, `{"a":[`+strings.Repeat(`"b",`, 1000)+`1]}`)
	ended := make(chan error, 1)
	go func() {
		r, err := Bytes("x", whole[:len(whole)/2]).Open()
		if err == nil {
			err = r.JSON().Skip()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrCut) {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

func TestJSON(t *testing.T) {
	r, err := Bytes("x", []byte(`{"skip":{"a":[1,{"b":"]"}]},"n":[1,2],"s":3}`)).Open()
	if err != nil {
		t.Fatal(err)
	}
	j := r.JSON()
	var sum int
	err = j.Object(func(key string) error {
		if key != "n" {
			return j.Skip()
		}
		return j.Array(func() error {
			var n int
			err := j.Decode(&n)
			sum += n
			return err
		})
	})
	if err != nil || sum != 3 {
		t.Errorf("%d, %v", sum, err)
	}
	for text, want := range map[string]string{`{"a":[1,`: "it was cut", `{"a":}`: "byte", `[1]`: "{",
		`{"a":{"b":1}`: "it was cut"} {
		r, _ := Bytes("x", []byte(text)).Open()
		j := r.JSON()
		err := j.Object(func(string) error { return j.Skip() })
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "x: byte ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestElements(t *testing.T) {
	for _, test := range []struct {
		o     Options
		bytes int64
		parts int
		count int64
		typ   string
	}{
		{Options{}, 4096, 4, 256, "float32"},
		{Options{}, 4098, 1, 2049, "float16"},
		{Options{}, 7, 1, 7, "int8"},
		{Options{}, 7, 2, 4, "int8"},
		{Options{Type: "bfloat16"}, 10, 2, 3, "bfloat16"},
	} {
		if count, typ := test.o.Elements(test.bytes, test.parts); count != test.count || typ != test.typ {
			t.Errorf("%+v: %d %s", test, count, typ)
		}
	}
}

// A reading ends with its context.
func TestFollowUntil(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, err := Follow(ctx, []File{Bytes("a", bytes.Repeat([]byte("line\n"), 1<<16))}, func(float64) {})[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lines := r.Lines()
	read := 0
	for lines.Next() {
		if read++; read == 10 {
			stop()
		}
	}
	if err := lines.Err(); !errors.Is(err, context.Canceled) || read >= 1<<16 {
		t.Errorf("%d lines, %v", read, err)
	}
	if _, err := Follow(t.Context(), []File{Path("no such file")}, func(float64) {})[0].Open(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A file that is on disk is not copied; one that is packed, or in memory, is, and the copy is removed.
func TestLocal(t *testing.T) {
	dir := t.TempDir()
	plain, zipped := filepath.Join(dir, "plain"), filepath.Join(dir, "zipped")
	for name, data := range map[string][]byte{plain: []byte("abc"), zipped: packed(t, "abc")} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range map[string]File{"plain": Path(plain), "zipped": Path(zipped),
		"memory":   Bytes("x", []byte("abc")),
		"followed": Follow(t.Context(), []File{Path(plain)}, func(float64) {})[0]} {
		path, done, err := f.Local()
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil || string(data) != "abc" || (path == plain) != (name == "plain" || name == "followed") {
			t.Errorf("%s: %s has %q, %v", name, path, data, err)
		}
		done()
		if _, err := os.Stat(path); (err == nil) != (path == plain) {
			t.Errorf("%s: after done: %v", name, err)
		}
	}
	cut := packed(t, strings.Repeat("abc", 100_000))
	if _, _, err := Bytes("x", cut[:len(cut)-9]).Local(); err == nil || !strings.HasPrefix(err.Error(), "x: ") {
		t.Errorf("a cut file: %v", err)
	}
}

// What unpacks to much more than any trace does is refused before it has cost much time.
func TestGzipBomb(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 100 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	z.Close()
	r, err := Bytes("x", b.Bytes()).Open()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); err == nil ||
		!strings.Contains(err.Error(), "unpacks to more than 100 times its size") || n > leastBomb {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// Values in values cost memory for each depth, also where they are skipped.
func TestDeepJSON(t *testing.T) {
	r, err := Bytes("x", []byte(`{"a":`+strings.Repeat("[", 20_000))).Open()
	if err != nil {
		t.Fatal(err)
	}
	j := r.JSON()
	if err := j.Object(func(string) error { return j.Skip() }); err == nil ||
		!strings.Contains(err.Error(), "more than 10000 deep") {
		t.Errorf("%v", err)
	}
}
