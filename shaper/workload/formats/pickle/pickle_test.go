// SPDX-License-Identifier: Apache-2.0

package pickle

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// text is a value as Python prints it.
func text(v any) string {
	switch v := v.(type) {
	case *List:
		var parts []string
		for _, item := range v.Items {
			parts = append(parts, text(item))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case *Dict:
		var parts []string
		for i, key := range v.Keys {
			parts = append(parts, key+":"+text(v.Values[i]))
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	return fmt.Sprint(v)
}

// python are pickles of one value, by Python 3.11 with the protocols 2, 3, 4 and 5:
// {"a":[1,-1,70000,2**40,-2**40,1.5],"b":("x",),"c":None,"d":True,"e":{"f":[]},"g":("x","y"),"h":(1,2,3,4),7:"seven"}
var python = []string{
	"80027d71002858010000006171015d7102284b014affffffff4a701101008a060000000000018a060000000000ff473ff8000000000000655801000000627103580100000078710485710558010000006371064e58010000006471078858010000006571087d7109580100000066710a5d710b73580100000067710c6804580100000079710d86710e580100000068710f284b014b024b034b047471104b075805000000736576656e7111752e",
	"80037d71002858010000006171015d7102284b014affffffff4a701101008a060000000000018a060000000000ff473ff8000000000000655801000000627103580100000078710485710558010000006371064e58010000006471078858010000006571087d7109580100000066710a5d710b73580100000067710c6804580100000079710d86710e580100000068710f284b014b024b034b047471104b075805000000736576656e7111752e",
	"80049578000000000000007d94288c0161945d94284b014affffffff4a701101008a060000000000018a060000000000ff473ff8000000000000658c0162948c01789485948c0163944e8c016494888c0165947d948c0166945d94738c01679468048c01799486948c016894284b014b024b034b0474944b078c05736576656e94752e",
	"80059578000000000000007d94288c0161945d94284b014affffffff4a701101008a060000000000018a060000000000ff473ff8000000000000658c0162948c01789485948c0163944e8c016494888c0165947d948c0166945d94738c01679468048c01799486948c016894284b014b024b034b0474944b078c05736576656e94752e",
}

func decode(t testing.TB, code string) []byte {
	t.Helper()
	data, err := hex.DecodeString(code)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestPython(t *testing.T) {
	const want = "{a:[1 -1 70000 1099511627776 -1099511627776 1.5] b:[x] c:<nil> d:true e:{f:[]} g:[x y] h:[1 2 3 4] 7:seven}"
	for i, code := range python {
		v, err := NewDecoder(bytes.NewReader(decode(t, code)), 1<<20, nil).Read()
		if err != nil || text(v) != want {
			t.Errorf("protocol %d: %s, %v", i+2, text(v), err)
		}
	}
}

// Whatever a pickle is cut to is refused.
func TestCut(t *testing.T) {
	data := decode(t, python[2])
	for n := range data {
		if v, err := NewDecoder(bytes.NewReader(data[:n]), 1<<20, nil).Read(); err == nil ||
			!strings.Contains(err.Error(), "it was cut") {
			t.Fatalf("%d bytes: %v, %v", n, v, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, test := range map[string]struct{ code, want string }{
		// os.system("true"), as pickle.dumps of an object with __reduce__ gives it
		"system": {"800263706f7369780a73797374656d0a580400000074727565855252" + "2e",
			"builds an object of Python (GLOBAL)"},
		"stack global":  {"80048c05706f7369788c0673797374656d932e", "builds an object of Python (STACK_GLOBAL)"},
		"protocol 0":    {"284c310a2e", "no pickle of protocol 2 to 5"},
		"protocol 6":    {"80064e2e", "no pickle of protocol 2 to 5"},
		"operation":     {"8002ff2e", "unknown operation 0xff"},
		"no value":      {"80022e", "a value that is not there"},
		"no mark":       {"80025d652e", "without a mark"},
		"memo":          {"800268052e", "from the memo that is not there"},
		"odd dict":      {"80027d284b01752e", "a key without a value"},
		"key":           {"80027d5d4b01732e", "a key that is no text"},
		"add to number": {"80024b014b02612e", "what is no list or dict"},
		"set in a list": {"80025d4b014b02732e", "what is no list or dict"},
		"long number":   {"80028a09000000000000000000" + "2e", "a number of 9 bytes"},
		"long text":     {"8002580000ffff2e", "a text of 4294901760 bytes"},
		"past the mark": {"80024b01282e", "a value that is not there"},
	} {
		v, err := NewDecoder(bytes.NewReader(decode(t, test.code)), 1<<20, nil).Read()
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "byte ") {
			t.Errorf("%s: %v, %v, want %q", name, v, err, test.want)
		}
	}
}

// Pickles that would need much memory are refused.
func TestBombs(t *testing.T) {
	const limit = 1 << 20
	repeat := func(before, code string) []byte {
		return append(append([]byte{0x80, 2}, before...), bytes.Repeat([]byte(code), limit)...)
	}
	for name, data := range map[string][]byte{
		"numbers":  repeat("", "K\x01"),
		"marks":    repeat("", "("),
		"nested":   repeat("]", "](K\x01e"),
		"texts":    repeat("", "U\x01x0"),
		"doubled":  repeat("K\x01", "2"),
		"memo":     {0x80, 2, 'N', 'r', 0xff, 0xff, 0xff, 0x7f, '.'},
		"put":      repeat("N", "\x94"),
		"appended": repeat("]", "K\x01a"),
		"set":      pairs(limit / 8),
	} {
		_, err := NewDecoder(bytes.NewReader(data), limit, nil).Read()
		if err == nil || !strings.Contains(err.Error(), "needs more than 1 MiB of memory") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// pairs is a pickle of a dict of n keys.
func pairs(n int) []byte {
	data := []byte("\x80\x02}")
	for i := range n {
		data = append(binary.LittleEndian.AppendUint32(append(data, 'J'), uint32(i)), "K\x01s"...)
	}
	return append(data, '.')
}

// Of equal keys the last value counts, as in Python 3.11: pickle.loads gives {'a': 3, 'b': 2}, and
// {0: 1, ..., 39: 1, 5: 'x'} has 40 keys.
func TestEqualKeys(t *testing.T) {
	v, err := NewDecoder(strings.NewReader("\x80\x02}(U\x01aK\x01U\x01bK\x02U\x01aK\x03u."), 1<<20, nil).Read()
	if err != nil || text(v) != "{a:3 b:2}" {
		t.Errorf("%s, %v", text(v), err)
	}
	data := pairs(40)
	data = append(data[:len(data)-1], "K\x05U\x01xs."...)
	v, err = NewDecoder(bytes.NewReader(data), 1<<20, nil).Read()
	d, ok := v.(*Dict)
	if err != nil || !ok || len(d.Keys) != 40 || d.Get("5") != "x" || d.Get("39") != int64(1) || d.Get("40") != nil {
		t.Errorf("%s, %v", text(v), err)
	}
}

// What is used up is counted no more, once: a dict in the memo that is used up twice keeps its head, and what a tuple or
// the memo has beside the dict that is used up is kept whole.
func TestReleasedOnce(t *testing.T) {
	const text, pair, inMemo = 16 + 1, slot + 16, 16
	const list = headBytes
	for name, test := range map[string]struct {
		code string
		want int64
	}{
		"once":         {"}(U\x01aK\x01u", list + slot + text},
		"in the memo":  {"}q\x00(U\x01aK\x01u", list + slot + text + headBytes + inMemo},
		"used twice":   {"}q\x00(U\x01aK\x01uh\x00(U\x01aK\x01u", list + 2*slot + 2*text + headBytes + inMemo},
		"twice in one": {"}(U\x01a}2\x86u", list + slot + text + headBytes},
		"of the memo": {"}(U\x01xK\x01uq\x00}(U\x01ah\x00u",
			list + 2*slot + 2*text + headBytes + pair + inMemo},
	} {
		d := NewDecoder(strings.NewReader("\x80\x02]("+test.code+"e."), 1<<20,
			func(d *Dict) bool { return d.Get("a") != nil })
		if v, err := d.Read(); err != nil || d.held != test.want {
			t.Errorf("%s: %d bytes are held, want %d (%v, %v)", name, d.held, test.want, v, err)
		}
	}
}

// Who looks at each part of a value makes no more than what was read allows, however often a part is in it.
func TestWeigh(t *testing.T) {
	long := "](" + strings.Repeat("K\x01", 10_000) + "eq\x00"
	deep := "N" + strings.Repeat("\x85", 100) // a tuple in a tuple
	for name, test := range map[string]struct{ code, want string }{
		"once":           {long, ""},
		"a few times":    {"](" + long + strings.Repeat("h\x00", 50) + "e", ""},
		"many times":     {"](" + long + strings.Repeat("h\x00", 10_000) + "e", "what the file asks for needs more than"},
		"a deep value":   {deep, "more than 64 deep"},
		"shared doubles": {"]" + strings.Repeat("q\x00h\x00\x86", 60), "what the file asks for needs more than"},
	} {
		d := NewDecoder(strings.NewReader("\x80\x02"+test.code+"."), 1<<30, nil)
		v, err := d.Read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = d.Weigh(v)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// entries is a pickle of n dicts {"a": [1, 2], "b": t} in a list, where t is in the memo.
func entries(n int) []byte {
	data := []byte("\x80\x02](")
	data = append(data, "U\x01aq\x00U\x01bq\x010"...)
	for range n {
		data = append(data, "}(h\x00](K\x01K\x02eh\x01h\x00u"...)
	}
	return append(data, "e."...)
}

// Dicts that are used up when they are whole need almost no memory.
func TestReduce(t *testing.T) {
	const n = 50_000
	seen := 0
	reduce := func(d *Dict) bool {
		if text(d) != "{a:[1 2] b:a}" {
			t.Fatal(text(d))
		}
		seen++
		return true
	}
	data := entries(n)
	limit := int64(n*2*slot + 1<<16)
	if _, err := NewDecoder(bytes.NewReader(data), limit, reduce).Read(); err != nil || seen != n {
		t.Errorf("%d dicts, %v", seen, err)
	}
	if _, err := NewDecoder(bytes.NewReader(data), limit, nil).Read(); err == nil {
		t.Error("without reduce the limit was not reached")
	}
}

func FuzzRead(f *testing.F) {
	for _, code := range python {
		f.Add(decode(f, code))
	}
	f.Add(entries(3))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := NewDecoder(bytes.NewReader(data), 1<<20, func(d *Dict) bool { return d.Get("a") != nil })
		v, err := d.Read()
		if err == nil && d.held > 1<<20 {
			t.Fatalf("%v: %d bytes are held", v, d.held)
		}
		if d.held < 0 {
			t.Fatalf("%d bytes are held", d.held)
		}
	})
}
