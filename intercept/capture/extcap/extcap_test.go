// SPDX-License-Identifier: Apache-2.0

package extcap

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestSentence(t *testing.T) {
	for want, got := range map[string]string{
		"dlt {number=1}{name=EN10MB}\n":   Sentence("dlt", Field{"number", "1"}, Field{"name", "EN10MB"}),
		"interface {display=a (b) c d}\n": Sentence("interface", Field{"display", "a {b} c\nd"}),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The bytes are those of Wireshark's documentation: T, 3 bytes of length, control, command, payload.
func TestMessages(t *testing.T) {
	for _, tc := range []struct {
		bytes string
		want  Message
	}{
		{"T\x00\x00\x02\x00\x00", Message{0, Initialized, []byte{}}},
		{"T\x00\x00\x07\x01\x01100us", Message{1, Set, []byte("100us")}},
		{"T\x00\x00\x03\x03\x01\x01", Message{3, Set, []byte{1}}},
		{"T\x01\x00\x01\x03\x06" + strings.Repeat("x", 65535), Message{3, StatusBar, bytes.Repeat([]byte("x"), 65535)}},
	} {
		got, err := Read(strings.NewReader(tc.bytes))
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%.20q was read as %+v, %v", tc.bytes, got, err)
		}
		if b := tc.want.Append(nil); string(b) != tc.bytes {
			t.Errorf("%+v was written as %.20q", tc.want, b)
		}
	}
	for _, bad := range []string{"T", "T\x00\x00\x02\x00", "X\x00\x00\x02\x00\x00", "T\x00\x00\x01\x00\x00",
		"T\x00\x00\x03\x00\x01", "T\x01\x00\x02\x00\x01" + strings.Repeat("x", 65536)} {
		if m, err := Read(strings.NewReader(bad)); !errors.Is(err, errMessage) {
			t.Errorf("%.20q was read as %+v, %v", bad, m, err)
		}
	}
	if _, err := Read(strings.NewReader("")); !errors.Is(err, io.EOF) {
		t.Errorf("the end was read as %v", err)
	}
}

// A message that is read is written again as it was.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"", "T\x00\x00\x02\x00\x00", "T\x00\x00\x07\x01\x01100us", "T\xff\xff\xff\x00\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		m, err := Read(r)
		if err != nil {
			return
		}
		if again := m.Append(nil); !bytes.Equal(again, b[:len(b)-r.Len()]) {
			t.Errorf("% x was written again as % x", b, again)
		}
	})
}
