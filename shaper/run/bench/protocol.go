// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// protocolVersion is the version of cuda/rank/protocol.h, which specifies the protocol with a rank process.
const protocolVersion = 1

// message is a line of the protocol.
type message struct {
	verb   string
	fields map[string]string
}

// parseMessage splits a line. The value of msg runs to the end of the line.
func parseMessage(line string) (message, error) {
	verb, rest, _ := strings.Cut(line, " ")
	m := message{verb: verb, fields: map[string]string{}}
	for rest != "" {
		if text, found := strings.CutPrefix(rest, "msg="); found {
			m.fields["msg"] = text
			break
		}
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		key, value, found := strings.Cut(word, "=")
		if !found || key == "" {
			return message{}, fmt.Errorf("%q is no key=value in the line %q", word, line)
		}
		m.fields[key] = value
	}
	switch verb {
	case "hello", "ok", "error", "progress":
		return m, nil
	}
	return message{}, fmt.Errorf("the line %q is none of hello, ok, progress and error", line)
}

// number returns a field as a whole number.
func (m message) number(key string) (int64, error) {
	n, err := strconv.ParseInt(m.fields[key], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the answer has no number %s: %v", key, m.fields)
	}
	return n, nil
}

// path returns a field in which spaces are written as %20.
func (m message) path(key string) string {
	if path, err := url.PathUnescape(m.fields[key]); err == nil {
		return path
	}
	return m.fields[key]
}
