// SPDX-License-Identifier: Apache-2.0

package msccl

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// attrs are the attributes of an element. The first error is kept for finish.
type attrs struct {
	of   string
	list []xml.Attr
	used [maxAttrs]bool
	err  error
}

func (a *attrs) find(name string) (string, bool) {
	for i, x := range a.list {
		if x.Name.Local == name {
			a.used[i] = true
			return x.Value, true
		}
	}
	return "", false
}

func (a *attrs) has(name string) bool {
	_, ok := a.find(name)
	return ok
}

func (a *attrs) text(name, fallback string) string {
	if v, ok := a.find(name); ok {
		return v
	}
	return fallback
}

func (a *attrs) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf("<%s>: "+format, append([]any{a.of}, args...)...)
	}
}

// number is an attribute between least and most. Without it, it is fallback if that is at least 0, or -1 and allowed;
// otherwise the attribute must be there.
func (a *attrs) number(name string, fallback, least, most int) int {
	v, ok := a.find(name)
	if !ok {
		if fallback < 0 {
			a.fail("attribute %s is missing", name)
		}
		return max(fallback, 0)
	}
	n, err := strconv.Atoi(strings.TrimSpace(v))
	if err != nil || n < least || n > most {
		a.fail("%s=%q: must be a number from %d to %d", name, clip(v), least, most)
		return least
	}
	return n
}

// optional is an attribute between -1 and most that may be missing: then it is -1.
func (a *attrs) optional(name string, most int) int {
	if !a.has(name) {
		return -1
	}
	return a.number(name, -1, -1, most)
}

func (a *attrs) flag(name string) bool {
	v, ok := a.find(name)
	if ok && v != "0" && v != "1" {
		a.fail("%s=%q: must be 0 or 1", name, clip(v))
	}
	return v == "1"
}

func (a *attrs) size(name string) int64 {
	v, ok := a.find(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	if err != nil || n < 0 {
		a.fail("%s=%q: must be a number of bytes from 0 to %d", name, clip(v), int64(1<<63-1))
	}
	return n
}

// ignore marks attributes that have no effect on a schedule.
func (a *attrs) ignore(names ...string) {
	for _, n := range names {
		a.find(n)
	}
}

// finishAttrs returns the first error of an element's attributes, and notes those that nobody asked for.
func (r *reader) finishAttrs(a *attrs) error {
	if a.err != nil {
		return a.err
	}
	for i, x := range a.list {
		if !a.used[i] {
			r.note("<%s> has attribute %q, which is not known: it is ignored, as MSCCL's executor does", a.of,
				clip(x.Name.Local))
		}
	}
	return nil
}
