// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// halfColumns are the columns that each half has: time, algbw, busbw and #wrong.
const halfColumns = 4

// columns are the columns of a table after size, count and type, by the line that names them.
//
// nccl-tests 1 had bytes and N for size and count, and times in ms. Up to 2.12, each test had its own columns, such as
// no redop in the test of all_gather, and the last one of a half was the largest error; RCCL's tests mark it with an
// asterisk if the result is wrong. Since 2.13 all have redop and root, and the number of wrong elements. With -I of
// 2.19 four columns follow each half; a time of day may follow with -S.
type columns struct {
	op, root bool
	wrong    bool          // the last column of a half is the number of wrong elements
	half     int           // columns of a half
	halves   int           // 1 or 2
	unit     time.Duration // of times
	cpu      bool          // times are of the host's threads
	problem  string        // why rows are not understood, "" if they are
}

// modern are the columns of nccl-tests since 2.13.
func modern() columns {
	return columns{op: true, root: true, wrong: true, half: halfColumns, halves: 2, unit: time.Microsecond}
}

// isHead says whether words name the columns of a table.
func isHead(words []string) bool {
	return len(words) > 4 && (words[0] == "size" || words[0] == "bytes") && (words[1] == "count" || words[1] == "N") &&
		words[2] == "type"
}

func isTime(name string) bool { return name == "time" || name == "cputime" }

// named are the columns with these names.
func named(words []string) columns {
	first := slices.IndexFunc(words, isTime)
	if first < 0 {
		return columns{problem: "no column is named time"}
	}
	c := columns{half: len(words) - first, halves: 1, unit: time.Microsecond, cpu: words[first] == "cputime"}
	if words[0] == "bytes" {
		c.unit = time.Millisecond
	}
	if next := slices.IndexFunc(words[first+1:], isTime); next >= 0 {
		c.half, c.halves = next+1, 2
	}
	for _, name := range words[3:first] {
		switch name {
		case "redop", "op":
			c.op = true
		case "root":
			c.root = true
		default:
			c.problem = fmt.Sprintf("the column %s is not known", name)
		}
	}
	names := words[first+1:]
	if len(names) < halfColumns-1 || names[0] != "algbw" || names[1] != "busbw" || c.half < halfColumns {
		c.problem = "after the time there must be algbw, busbw and #wrong"
	} else {
		c.wrong = strings.HasSuffix(names[2], "wrong")
	}
	return c
}

// before is the number of columns between the type and the first time.
func (c *columns) before() (n int) {
	if c.op {
		n++
	}
	if c.root {
		n++
	}
	return n
}

// missing is how many words a row lacks. words are its words from the size on.
func (c *columns) missing(words []string) int {
	n := 3 + c.before() + c.half*c.halves - len(words)
	if c.blankOp(words[min(3, len(words)):]) {
		n--
	}
	return max(n, 0)
}

// blankOp says whether the column of the operator is blank: alltoall had none before 2022. An operator is no number.
func (c *columns) blankOp(words []string) bool {
	return c.op && len(words) > 0 && isNumber(words[0])
}

// What is missing of a row.
const (
	outOfPlaceCut = "the row is cut before its out-of-place half ends"
	inPlaceCut    = "the row is cut before its in-place half ends"
)

// row reads the words after the type of a row. cut names the missing words, "" if there are none.
func (c *columns) row(r *Row, words []string) (cut string, err error) {
	r.Root = -1
	if c.op && len(words) > 0 && !c.blankOp(words) {
		r.Op, words = words[0], words[1:]
	}
	if c.root && len(words) > 0 {
		if r.Root, err = strconv.Atoi(words[0]); err != nil || r.Root < -1 {
			return "", fmt.Errorf("root %s: not a rank", words[0])
		}
		words = words[1:]
	}
	if len(words) < halfColumns {
		return outOfPlaceCut, nil
	}
	if r.OutOfPlace, err = c.oneHalf(words); err != nil || c.halves == 1 {
		return "", err
	}
	rest := words[min(c.half, len(words)):]
	if len(rest) > 0 && rest[0] == "N/A" {
		return "", nil
	}
	if len(rest) < halfColumns {
		return inPlaceCut, nil
	}
	inPlace, err := c.oneHalf(rest)
	r.InPlace = &inPlace
	return "", err
}

// oneHalf reads time, algbw, busbw and #wrong.
func (c *columns) oneHalf(words []string) (h Half, err error) {
	if h.Time, err = duration(words[0], c.unit); err != nil {
		return h, err
	}
	for i, to := range []*float64{&h.AlgBW, &h.BusBW} {
		if *to, err = strconv.ParseFloat(words[1+i], 64); err != nil || !(*to >= 0 && *to < 1e12) {
			return h, fmt.Errorf("bandwidth %s: not a number of GB/s", words[1+i])
		}
	}
	h.Wrong = -1
	if words[3] == "N/A" {
		return h, nil
	}
	number, beyond := strings.CutSuffix(words[3], "*") // RCCL's tests: an error beyond the bound
	wrong, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return h, fmt.Errorf("#wrong %s: not a number of elements", words[3])
	}
	switch {
	case c.wrong && wrong >= 0 && wrong < 1<<62:
		h.Wrong = int64(wrong)
	case beyond:
		h.Wrong = SomeWrong
	}
	return h, nil
}

// duration reads a number of units, which are microseconds or milliseconds.
func duration(text string, unit time.Duration) (time.Duration, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= 1e12) {
		name := map[time.Duration]string{time.Microsecond: "microseconds", time.Millisecond: "milliseconds"}[unit]
		return 0, fmt.Errorf("time %s: not a number of %s", text, name)
	}
	return time.Duration(n * float64(unit)), nil
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isCell says whether a word is of a half: a number, N/A, or an error with an asterisk.
func isCell(s string) bool { return s == "N/A" || isNumber(strings.TrimSuffix(s, "*")) }

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
