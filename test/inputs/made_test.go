// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxInput is the most bytes that a made input has.
const maxInput = 1 << 20

// maker makes inputs for one reader: the same for the same number.
type maker struct {
	samples [][]byte
	bombs   []bomb
}

// bomb is a whole input that is written for the reader.
type bomb struct {
	name string
	make func() []byte
}

// made is input number n and what was done to make it. The first ones are the samples and the bombs as they are.
func (m *maker) made(n int) (data []byte, how string) {
	if n < len(m.bombs) {
		return limit(m.bombs[n].make()), "bomb " + m.bombs[n].name
	}
	if n -= len(m.bombs); n < len(m.samples) {
		return limit(bytes.Clone(m.samples[n])), fmt.Sprintf("sample %d", n)
	}
	r := rand.New(rand.NewPCG(uint64(n), 1))
	at := r.IntN(len(m.samples))
	data = bytes.Clone(m.samples[at])
	how = fmt.Sprintf("sample %d", at)
	for range 1 + r.IntN(3) {
		c := changes[r.IntN(len(changes))]
		data = limit(c.do(r, data))
		how += ", " + c.name
	}
	if r.IntN(20) == 0 {
		data = packed(r, data)
		how += ", packed"
	}
	return limit(data), how
}

func limit(data []byte) []byte { return data[:min(len(data), maxInput)] }

// packed is data, up to 300 times, as gzip packs it.
func packed(r *rand.Rand, data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 1 + r.IntN(300) {
		// a buffer takes all
		_, _ = z.Write(data)
	}
	_ = z.Close()
	return b.Bytes()
}

// change makes another input of one.
type change struct {
	name string
	do   func(r *rand.Rand, data []byte) []byte
}

var changes = []change{
	{"bytes", changeBytes}, {"cut", cut}, {"a part repeated", repeatPart}, {"a number", changeNumber},
	{"all numbers", changeNumbers}, {"a line repeated", repeatLine}, {"a record repeated", repeatRecord},
	{"records numbered", numberRecords}, {"nested", nest}, {"a long list", longList}, {"a long text", longText},
	{"a wide list of ranks", wideRanks}, {"a part moved", movePart}, {"a varint", changeVarint},
	{"a number repeated", repeatNumber},
}

func changeBytes(r *rand.Rand, data []byte) []byte {
	for range 1 + r.IntN(8) {
		if len(data) == 0 {
			return data
		}
		data[r.IntN(len(data))] = byte(r.IntN(256))
	}
	return data
}

func cut(r *rand.Rand, data []byte) []byte { return data[:r.IntN(len(data)+1)] }

// part is a random part of data.
func part(r *rand.Rand, data []byte) (from, to int) {
	from = r.IntN(len(data) + 1)
	return from, from + r.IntN(min(len(data)-from, 4096)+1)
}

// filled is one as often as it fits between before and after.
func filled(before, one, after []byte) []byte {
	room := maxInput - len(before) - len(after)
	if len(one) == 0 || room <= 0 {
		return slices.Concat(before, after)
	}
	return slices.Concat(before, bytes.Repeat(one, room/len(one)), after)
}

func repeatPart(r *rand.Rand, data []byte) []byte {
	from, to := part(r, data)
	if r.IntN(2) == 0 {
		return slices.Concat(data[:to], bytes.Repeat(data[from:to], r.IntN(64)), data[to:])
	}
	return filled(data[:to], data[from:to], data[to:])
}

func movePart(r *rand.Rand, data []byte) []byte {
	from, to := part(r, data)
	moved := bytes.Clone(data[from:to])
	rest := slices.Concat(data[:from], data[to:])
	at := r.IntN(len(rest) + 1)
	return slices.Concat(rest[:at], moved, rest[at:])
}

var numbers = regexp.MustCompile(`-?\d+(\.\d+)?`)

// extremes are numbers at the bounds of types and of what the readers allow.
var extremes = []string{"0", "-1", "1", "2", "255", "4095", "65535", "65536", "1048575", "1048576", "9999999",
	"2147483647", "2147483648", "4294967295", "9007199254740993", "72057594037927936", "1000000000000000000",
	"9223372036854775807", "9223372036854775808", "18446744073709551615", "-9223372036854775808", "1e18", "1e308",
	"1e-320", "NaN", "0.5"}

func extreme(r *rand.Rand) []byte { return []byte(extremes[r.IntN(len(extremes))]) }

// changeNumber makes a number, or some of them, another one.
func changeNumber(r *rand.Rand, data []byte) []byte {
	for range 1 + r.IntN(3) {
		all := numbers.FindAllIndex(data, 10_000)
		if len(all) == 0 {
			return data
		}
		at := all[r.IntN(len(all))]
		data = slices.Concat(data[:at[0]], extreme(r), data[at[1]:])
	}
	return data
}

// changeNumbers makes many numbers the same one.
func changeNumbers(r *rand.Rand, data []byte) []byte {
	to := extreme(r)
	return numbers.ReplaceAllFunc(data, func(old []byte) []byte {
		if r.IntN(3) == 0 {
			return to
		}
		return old
	})
}

// line is a random line of data.
func line(r *rand.Rand, data []byte) (from, to int) {
	at := r.IntN(len(data) + 1)
	from = bytes.LastIndexByte(data[:at], '\n') + 1
	to = len(data)
	if end := bytes.IndexByte(data[at:], '\n'); end >= 0 {
		to = at + end + 1
	}
	return from, to
}

func repeatLine(r *rand.Rand, data []byte) []byte {
	from, to := line(r, data)
	one := bytes.Clone(data[from:to])
	if r.IntN(2) == 0 {
		one = changeNumber(r, one)
	}
	return filled(data[:to], one, data[to:])
}

var brackets = map[byte]byte{'{': '}', '[': ']', '<': '>', '(': ')'}

// record is a part of data from a bracket to the one that closes it.
func record(r *rand.Rand, data []byte) (from, to int) {
	for range 20 {
		if len(data) == 0 {
			return 0, 0
		}
		from = r.IntN(len(data))
		if open := bytes.IndexAny(data[from:], "{[<"); open >= 0 {
			from += open
		}
		end, ok := brackets[data[from]]
		if !ok {
			continue
		}
		depth := 0
		for to = from; to < len(data); to++ {
			switch data[to] {
			case data[from]:
				depth++
			case end:
				if depth--; depth == 0 {
					return from, to + 1
				}
			}
		}
	}
	return 0, 0
}

// separated is what separates a record from the one after it.
func separated(one []byte) []byte {
	if len(one) > 0 && one[0] == '<' {
		return one
	}
	return append(bytes.Clone(one), ',')
}

func repeatRecord(r *rand.Rand, data []byte) []byte {
	from, to := record(r, data)
	return filled(data[:from], separated(data[from:to]), data[from:])
}

// numberRecords repeats a record or a line, each time with other numbers.
func numberRecords(r *rand.Rand, data []byte) []byte {
	from, to := record(r, data)
	if r.IntN(2) == 0 {
		from, to = line(r, data)
	}
	one := data[from:to]
	if len(one) > 0 && data[to-1] != '\n' {
		one = separated(one)
	}
	if len(one) == 0 {
		return data
	}
	out := bytes.Clone(data[:from])
	step := 1 + r.IntN(1000)
	for n := 0; len(out)+len(data)-from+len(one) < maxInput; n += step {
		out = append(out, numbers.ReplaceAllFunc(one, func(old []byte) []byte {
			if value, err := strconv.Atoi(string(old)); err == nil && len(old) < 10 {
				return strconv.AppendInt(nil, int64(value+n), 10)
			}
			return old
		})...)
	}
	return append(out, data[from:]...)
}

var nests = []string{"[", "{\"a\":", "<a>", "(", "<gpu id=\"0\">", "[[", "{\"args\":[", "a: [", "- ", "&a [", "{"}

// nest puts values in values.
func nest(r *rand.Rand, data []byte) []byte {
	at := r.IntN(len(data) + 1)
	if from, _ := record(r, data); r.IntN(2) == 0 {
		at = from
	}
	one := []byte(nests[r.IntN(len(nests))])
	return slices.Concat(data[:at], bytes.Repeat(one, 1<<(4+r.IntN(14))), data[at:])
}

// longList puts a list of many numbers in place of a list or a number.
func longList(r *rand.Rand, data []byte) []byte {
	from, to := record(r, data)
	if r.IntN(2) == 0 {
		if all := numbers.FindAllIndex(data, 10_000); len(all) > 0 {
			at := all[r.IntN(len(all))]
			from, to = at[0], at[1]
		}
	}
	separator := []string{",", " ", ", ", "-", ":"}[r.IntN(5)]
	var b bytes.Buffer
	begin := byte(0)
	if to > from && (data[from] == '[' || data[from] == '{') {
		begin = data[from]
		b.WriteByte(begin)
	}
	same := r.IntN(2) == 0
	for n, most := 0, 1<<(6+r.IntN(12)); n < most; n++ {
		if n > 0 {
			b.WriteString(separator)
		}
		if same {
			b.WriteByte('7')
		} else {
			b.WriteString(strconv.Itoa(n))
		}
	}
	if begin != 0 {
		b.WriteByte(brackets[begin])
	}
	return slices.Concat(data[:from], b.Bytes(), data[to:])
}

func longText(r *rand.Rand, data []byte) []byte {
	at := r.IntN(len(data) + 1)
	one := []string{"a", "\\n", "\\u0000", "é", "&lt;", "%s", "\t", "#", "\"", "0"}[r.IntN(10)]
	return slices.Concat(data[:at], []byte(strings.Repeat(one, 1<<(4+r.IntN(15)))), data[at:])
}

// wideRanks makes numbers ranges of all ranks, as some formats write them in short.
func wideRanks(r *rand.Rand, data []byte) []byte {
	wide := []string{"0-1048575", "0-1048575:2", "0..1048575", "[0-1048575]", "0-65535"}[r.IntN(5)]
	n := 0
	return numbers.ReplaceAllFunc(data, func(old []byte) []byte {
		if n++; n < 1000 && r.IntN(4) == 0 {
			return []byte(wide)
		}
		return old
	})
}

// changeVarint writes a large length as protobuf does.
func changeVarint(r *rand.Rand, data []byte) []byte {
	if len(data) == 0 {
		return data
	}
	at := r.IntN(len(data))
	return slices.Concat(data[:at], bytes.Repeat([]byte{0xff}, 1+r.IntN(9)), []byte{byte(r.IntN(128))}, data[at:])
}

// repeatNumber repeats a number with what stands around it.
func repeatNumber(r *rand.Rand, data []byte) []byte {
	all := numbers.FindAllIndex(data, 10_000)
	if len(all) == 0 {
		return data
	}
	at := all[r.IntN(len(all))]
	end := min(at[1]+1, len(data))
	return filled(data[:end], data[at[0]:end], data[end:])
}
