// SPDX-License-Identifier: Apache-2.0

package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxRecord is the maximum number of bytes of one record of a JSON file, since the decoder keeps a record in memory.
const maxRecord = 16 << 20

// maxDepth is the maximum depth of arrays and objects in each other, since the decoder keeps a word for each. It is
// the limit of encoding/json for values that are decoded.
const maxDepth = 10_000

// ErrCut is the error of a JSON file that ends in the middle.
var ErrCut = errors.New("the file ends in the middle: it was cut")

// IsWrongType tells whether a field of a record has a value of another type than expected. The decoder has then read
// the whole record, and goes on after it.
func IsWrongType(err error) bool {
	wrong := new(json.UnmarshalTypeError)
	return errors.As(err, &wrong) || errors.Is(err, errNumber)
}

// errNumber is the error of an [Integer] that is none.
var errNumber = errors.New("no number")

// Integer is a whole number, which some formats write as a text if it has 64 bits. Without a sign it may have all 64.
type Integer int64

// UnmarshalJSON implements json.Unmarshaler.
func (i *Integer) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		var u uint64
		u, err = strconv.ParseUint(text, 10, 64)
		n = int64(u)
	}
	if err != nil {
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		n = int64(f)
	}
	if err != nil {
		return fmt.Errorf("%s is %w", data, errNumber)
	}
	*i = Integer(n)
	return nil
}

// Text is a value that is a text in some versions of a format and a number in others.
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	*t = Text(text)
	return nil
}

// Number is the value as a number, missing if it is none.
func (t Text) Number(missing int64) int64 {
	if n, err := strconv.ParseInt(string(t), 10, 64); err == nil {
		return n
	}
	return missing
}

// JSON reads a JSON file piece by piece.
type JSON struct {
	*json.Decoder
	name string
	read *countingReader
}

// countingReader counts what the decoder has read, and ends when one record becomes too long.
type countingReader struct {
	r        io.Reader
	total    int64
	consumed func() int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	if c.total-c.consumed() > maxRecord {
		return 0, fmt.Errorf("a record is longer than %d MiB", maxRecord>>20)
	}
	// The decoder goes through what it has kept again after each read, so a read gives all that it has room for.
	n, err := io.ReadFull(c.r, p)
	if errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
		err = nil // the next read tells it, as it tells that a packed file is cut
	}
	c.total += int64(n)
	return n, err
}

// JSON returns a decoder of the file.
func (r *Reader) JSON() *JSON {
	j := &JSON{name: r.name, read: &countingReader{r: r}}
	j.Decoder = json.NewDecoder(j.read)
	j.read.consumed = j.InputOffset
	return j
}

// Object calls field with each key of the object that comes next. field must read the value.
func (j *JSON) Object(field func(key string) error) error {
	if err := j.open('{'); err != nil {
		return err
	}
	for j.More() {
		key, err := j.Token()
		if err != nil {
			return j.Wrap(err)
		}
		name, _ := key.(string)
		if err := field(name); err != nil {
			return j.Wrap(err)
		}
	}
	return j.end()
}

// Array calls element before each element of the array that comes next. element must read it.
func (j *JSON) Array(element func() error) error {
	if err := j.open('['); err != nil {
		return err
	}
	for j.More() {
		if err := element(); err != nil {
			return j.Wrap(err)
		}
	}
	return j.end()
}

func (j *JSON) open(delim json.Delim) error {
	token, err := j.Token()
	if err != nil {
		return j.Wrap(err)
	}
	if token != delim {
		return j.Wrap(fmt.Errorf("%v where %q is expected", token, delim.String()))
	}
	return nil
}

func (j *JSON) end() error {
	_, err := j.Token()
	return j.Wrap(err)
}

// Skip passes over the value that comes next without keeping it.
func (j *JSON) Skip() error {
	for depth := 0; ; {
		token, err := j.Token()
		if err != nil {
			return j.Wrap(err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		switch {
		case depth == 0:
			return nil
		case depth > maxDepth:
			return j.Wrap(fmt.Errorf("values in values, more than %d deep", maxDepth))
		}
	}
}

// placed is an error that already says its place.
type placed struct{ error }

func (p placed) Unwrap() error { return p.error }

// Wrap adds the file and the byte offset to an error.
func (j *JSON) Wrap(err error) error {
	if err == nil || errors.As(err, new(placed)) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrCut
	}
	return placed{fmt.Errorf("%s: byte %d: %w", j.name, j.InputOffset(), err)}
}

// AtEnd returns an error if there is anything left, or if the file was cut.
func (j *JSON) AtEnd() error {
	_, err := j.Token()
	if err == nil {
		err = errors.New("there is something after the last value")
	} else if errors.Is(err, io.EOF) {
		return nil
	}
	return j.Wrap(err)
}
