// SPDX-License-Identifier: Apache-2.0

package ararchive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type member struct {
	Name, Data string
}

// write makes an archive as GNU ar does: names of more than 15 bytes go into a table.
func write(members []member) []byte {
	var names, body bytes.Buffer
	add := func(out *bytes.Buffer, name, data string) {
		fmt.Fprintf(out, "%-16s%-12s%-6s%-6s%-8s%-10d`\n%s", name, "0", "0", "0", "644", len(data), data)
		if len(data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	for _, m := range members {
		name := m.Name + "/"
		if len(m.Name) > 15 {
			name = fmt.Sprintf("/%d", names.Len())
			names.WriteString(m.Name + "/\n")
		}
		add(&body, name, m.Data)
	}
	out := bytes.NewBufferString(magic)
	add(out, "/", "symbols")
	if names.Len() > 0 {
		add(out, "//", names.String())
	}
	out.Write(body.Bytes())
	return out.Bytes()
}

func read(archive []byte) ([]member, error) {
	r, err := NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	var out []member
	for {
		name, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return out, err
		}
		out = append(out, member{name, string(data)})
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []member
		for range rapid.IntRange(0, 8).Draw(t, "members") {
			want = append(want, member{
				rapid.StringMatching(`[a-z_.]{1,40}`).Draw(t, "name"),
				rapid.StringN(0, 100, 200).Draw(t, "data"),
			})
		}
		got, err := read(write(want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Members that nobody reads are skipped.
func TestSkip(t *testing.T) {
	r, err := NewReader(bytes.NewReader(write([]member{{"a.o", "12345"}, {"a_rather_long_member_name.o", "6"}, {"a.o", ""}})))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a.o", "a_rather_long_member_name.o", "a.o"} {
		if name, err := r.Next(); err != nil || name != want {
			t.Fatalf("got %q, %v, want %q", name, err, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("after the last: %v", err)
	}
}

func TestReadsWhatArWrites(t *testing.T) {
	dir := t.TempDir()
	want := []member{{"one.o", "first"}, {"a_name_of_more_than_fifteen_bytes.o", "second member"}}
	archive := filepath.Join(dir, "x.a")
	for _, m := range want {
		file := filepath.Join(dir, m.Name)
		if err := os.WriteFile(file, []byte(m.Data), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("ar", "qc", archive, file).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDamage(t *testing.T) {
	whole := write([]member{{"one.o", "first"}, {"a_name_of_more_than_fifteen_bytes.o", "second member"}})
	for cut := range len(whole) - 1 {
		members, err := read(whole[:cut])
		complete := cut >= len(magic) && (len(members) < 2 || members[1].Data == "second member")
		if err == nil && !complete {
			t.Errorf("cut at %d: read %v without an error", cut, members)
		}
	}
	for _, bad := range []string{"", "!<arch>", "!<thin>\n", magic + "x"} {
		if _, err := read([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(write([]member{{"one.o", "first"}, {"a_name_of_more_than_fifteen_bytes.o", "second"}}))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		members, _ := read(data)
		total := 0
		for _, m := range members {
			total += len(m.Data)
		}
		if total > len(data) {
			t.Errorf("read %d bytes out of %d", total, len(data))
		}
	})
}
