// SPDX-License-Identifier: Apache-2.0

package ncclprofiler

import (
	"bytes"
	"io"
)

// maxWord is the maximum length of a word that is put in quotes, in bytes. Types and pointers are shorter.
const maxWord = 64

// wordQuoter is a reader that puts words and pointers which are values into quotes: the profiler of NCCL 2.28 writes
// "datatype": ncclFloat32 and "Stream": 0x4142e90, for the default stream "Stream": (nil), and so no JSON.
type wordQuoter struct {
	in   io.Reader
	err  error
	buf  [1 << 15]byte
	out  []byte // what is to be read
	done int    // bytes of out that were read

	text    bool // inside of quotes
	escaped bool // after a backslash
	value   bool // after a colon
	word    []byte
	long    bool // the word is longer than maxWord: it stays as it is
}

// Read implements io.Reader.
func (q *wordQuoter) Read(p []byte) (int, error) {
	for q.done == len(q.out) {
		if q.err != nil {
			return 0, q.err
		}
		q.out, q.done = q.out[:0], 0
		var n int
		n, q.err = q.in.Read(q.buf[:])
		for _, c := range q.buf[:n] {
			q.add(c)
		}
		if q.err != nil {
			q.endWord()
		}
	}
	n := copy(p, q.out[q.done:])
	q.done += n
	return n, nil
}

func (q *wordQuoter) add(c byte) {
	switch {
	case q.text:
		q.out = append(q.out, c)
		q.text = c != '"' || q.escaped
		q.escaped = c == '\\' && !q.escaped
	case bytes.IndexByte([]byte(" \t\r\n,:{}[]\""), c) >= 0:
		q.endWord()
		q.out = append(q.out, c)
		q.text = c == '"'
		q.value = c == ':' || q.value && bytes.IndexByte([]byte(" \t\r\n"), c) >= 0
	case q.long:
		q.out = append(q.out, c)
	default:
		q.word = append(q.word, c)
		if len(q.word) > maxWord {
			q.out = append(q.out, q.word...)
			q.word, q.long = q.word[:0], true
		}
	}
}

func (q *wordQuoter) endWord() {
	q.long = false
	if len(q.word) == 0 {
		return
	}
	quote := q.value && bare(q.word)
	if quote {
		q.out = append(q.out, '"')
	}
	q.out = append(q.out, q.word...)
	if quote {
		q.out = append(q.out, '"')
	}
	q.word, q.value = q.word[:0], false
}

// bare tells whether a word is neither a number nor a word of JSON.
func bare(word []byte) bool {
	switch text := string(word); text {
	case "true", "false", "null":
		return false
	case "(nil)":
		return true
	}
	c := word[0]
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || bytes.HasPrefix(word, []byte("0x"))
}
