// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Error is about a value that a user gave and that is refused: the caller exits with
// status 2. Its text is one line with the place, the field, the value and the allowed
// values.
type Error struct {
	Where string // file:line, or the flag or variable that gave the value; empty if a program gave it
	Field string // as in a fabric file, such as links[1].mtu; empty if Where is enough
	Err   error
}

// Error is the line for the user.
func (e *Error) Error() string {
	s := e.Err.Error()
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Where != "" {
		s = e.Where + ": " + s
	}
	return s
}

// Unwrap is the error without its place.
func (e *Error) Unwrap() error { return e.Err }

// Errorf is an Error about field.
func Errorf(field, format string, args ...any) *Error {
	return &Error{Field: field, Err: fmt.Errorf(format, args...)}
}

// IsUserError reports whether err is or wraps an Error.
func IsUserError(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

// Nearest returns the candidates that are most similar to word, at most three, best
// first; none if none is similar.
func Nearest(word string, candidates []string) []string {
	type scored struct {
		name     string
		distance int
	}
	word = strings.ToLower(word)
	var near []scored
	for _, c := range candidates {
		most := max(2, len(c)/2)
		if len(word)-len(c) > most { // the distance is at least this, and would take much memory of a long word
			continue
		}
		d := Distance(word, strings.ToLower(c))
		if strings.Contains(c, word) && word != "" {
			d = min(d, 1)
		}
		if d <= most {
			near = append(near, scored{c, d})
		}
	}
	slices.SortStableFunc(near, func(a, b scored) int { return a.distance - b.distance })
	var names []string
	for _, s := range near[:min(len(near), 3)] {
		names = append(names, s.name)
	}
	return names
}

// Distance is the number of edits from a to b: insert, delete or replace a letter, or
// swap two neighbours (optimal string alignment).
func Distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

// Unknown is the error for a word that is not one of names. It lists similar names.
func Unknown(what, word string, names []string) error {
	if near := Nearest(word, names); len(near) > 0 {
		return fmt.Errorf("%q is not a %s: did you mean %s?", word, what, OrList(near))
	}
	return fmt.Errorf("%q is not a %s: there are %s", word, what, strings.Join(names, ", "))
}

// OrList joins words by commas and a last "or".
func OrList(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
