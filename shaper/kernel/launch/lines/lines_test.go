// SPDX-License-Identifier: Apache-2.0

package lines

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"a line", "hello\n", "n|hello\n"},
		{"no newline at the end", "hello\nworld", "n|hello\nn|world\n"},
		{"empty lines", "\n\na\n", "n|\nn|\nn|a\n"},
		{"carriage returns", "\r1%\r2%\r3%\n", "n|1%\nn|2%\nn|3%\n"},
		{"lines of another system", "a\r\nb\r\n", "n|a\nn|b\n"},
		{"an empty line of another system", "a\r\n\r\nb", "n|a\nn|b\n"},
		{"as long as it may be", long + "\n", "n|" + long + "\n"},
		{"too long", long + "yz\n", "n|" + long + "\nn|yz\n"},
		{"much too long", long + long + "z", "n|" + long + "\nn|" + long + "\nn|z\n"},
		{"not text", "\x00\xff\n", "n|\x00\xff\n"},
	} {
		for _, step := range []int{1, 7, 1 << 20} {
			if got := through(t, c.in, step); got != c.want {
				t.Errorf("%s, %d bytes at once: got %.80q, want %.80q", c.name, step, got, c.want)
			}
		}
	}
}

// through is what comes out when step bytes of in are written at a time.
func through(t interface{ Fatal(...any) }, in string, step int) string {
	var out bytes.Buffer
	s := Printer{&out, &sync.Mutex{}}.Stream("n|")
	for rest := []byte(in); len(rest) > 0; {
		n := min(step, len(rest))
		if wrote, err := s.Write(rest[:n]); wrote != n || err != nil {
			t.Fatal(wrote, err)
		}
		rest = rest[n:]
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// However it is cut, all text comes out, in order, and each line has its prefix.
func TestLinesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringMatching(`[a-c\n\r]{0,200}`).Draw(t, "in")
		step := rapid.IntRange(1, 50).Draw(t, "step")
		got, strip := through(t, in, step), strings.NewReplacer("\r", "", "\n", "")
		if whole := through(t, in, 1<<20); got != whole {
			t.Fatalf("got %q in steps and %q at once", got, whole)
		}
		if text := strip.Replace(strings.ReplaceAll(got, "n|", "")); text != strip.Replace(in) {
			t.Fatalf("got the text %q of %q", text, in)
		}
		for line := range strings.Lines(got) {
			if !strings.HasPrefix(line, "n|") || !strings.HasSuffix(line, "\n") {
				t.Fatalf("line %q of %q", line, got)
			}
		}
	})
}

// Streams at once never mix within a line.
func TestStreamsAtOnce(t *testing.T) {
	var (
		out bytes.Buffer
		mu  sync.Mutex
		all sync.WaitGroup
	)
	for n := range 4 {
		all.Go(func() {
			s := Printer{&out, &mu}.Stream(fmt.Sprintf("%d|", n))
			for range 1000 {
				fmt.Fprint(s, n, n)
				fmt.Fprintln(s, n, n)
			}
		})
	}
	all.Wait()
	lines := 0
	for line := range strings.Lines(out.String()) {
		n := line[:1]
		if want := fmt.Sprintf("%s|%[1]s %[1]s%[1]s %[1]s\n", n); line != want {
			t.Fatalf("got %q, want %q", line, want)
		}
		lines++
	}
	if lines != 4000 {
		t.Errorf("%d lines of 4000", lines)
	}
}

type broken struct{}

var errBroken = errors.New("broken")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestBrokenOutput(t *testing.T) {
	s := Printer{broken{}, &sync.Mutex{}}.Stream("")
	if _, err := s.Write([]byte("a")); err != nil {
		t.Errorf("before a line is whole: %v", err)
	}
	if _, err := s.Write([]byte("\n")); !errors.Is(err, errBroken) {
		t.Errorf("got %v, want the output's error", err)
	}
}
