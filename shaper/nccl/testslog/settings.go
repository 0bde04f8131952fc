// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"regexp"
	"slices"
	"strings"
)

// settings are the variables of NCCL that the lines of a log give. What a program's own messages say is of that program
// alone. What other lines say, such as a header or the command, holds until another value follows.
type settings struct{ stated, read []string }

var (
	// setLine is NCCL's message on a variable that it has read (NCCL_DEBUG=INFO).
	setLine = regexp.MustCompile(`^(NCCL_[A-Z0-9_]+) set(?: by environment)? to (\S+?)\.?$`)
	// assignment is a variable in a header, in an export of a shell or after -x of mpirun.
	assignment = regexp.MustCompile(`(?:^|[\s"'])(NCCL_[A-Z0-9_]+)=["']?([^\s"']+)`)
)

// message reads the text of a message of NCCL.
func (s *settings) message(text string) {
	if m := setLine.FindStringSubmatch(strings.TrimSpace(text)); m != nil {
		s.read = put(s.read, m[1], m[2])
	}
}

// line reads a line without messages. It returns whether the line gives a variable.
func (s *settings) line(text string) bool {
	if !strings.Contains(text, "NCCL_") {
		return false
	}
	all := assignment.FindAllStringSubmatch(text, -1)
	for _, m := range all {
		s.stated = put(s.stated, m[1], m[2])
	}
	return len(all) > 0
}

// variables are NCCL's variables of an environment.
func variables(environment []string) (all []string) {
	for _, text := range environment {
		name, value, _ := strings.Cut(text, "=")
		if value != "" && strings.HasPrefix(name, "NCCL_") {
			all = put(all, name, value)
		}
	}
	return all
}

// of are all variables as NAME=value; those that NCCL has read win.
func (s *settings) of() []string {
	all := slices.Clone(s.stated)
	for _, v := range s.read {
		name, value, _ := strings.Cut(v, "=")
		all = put(all, name, value)
	}
	return all
}

// put sets a variable of a list.
func put(all []string, name, value string) []string {
	at := slices.IndexFunc(all, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if at < 0 {
		return append(all, name+"="+value)
	}
	all[at] = name + "=" + value
	return all
}
