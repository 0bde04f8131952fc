// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs/bounds"
)

// Setting is a variable that is set.
type Setting struct {
	Name, Value string
	File        string // of NCCL that has it; "" for the environment
}

// The files in which NCCL looks for variables that the environment does not have.
const (
	confEnv    = "NCCL_CONF_FILE" // names one to read instead of the user's, since NCCL 2.23
	confOfUser = ".nccl.conf"
	confOfHost = "/etc/nccl.conf"
)

// Read returns what NCCL of a version finds set: the variables of env, and those of its files that env does not have,
// as setEnvFile of misc/param.cc reads them. home is the home folder of the user in the password file, "" if it is not
// known. A file that cannot be read has none.
func Read(nccl string, env []string, home string) []Setting {
	return read(nccl, env, home, bounds.ReadFile)
}

func read(nccl string, env []string, home string, open func(path string) ([]byte, error)) []Setting {
	out, known := fromEnv(env)
	add := func(name, value, file string) {
		if isOurs(name) && !known[name] {
			known[name] = true
			out = append(out, Setting{name, value, file})
		}
	}
	files := []string{confOfHost}
	if home != "" {
		files = []string{filepath.Join(home, confOfUser), confOfHost}
	}
	if named := Getenv(out)(confEnv); named != "" && listed(nccl) != Versions[0] {
		files = []string{named, confOfHost}
	}
	for _, file := range files {
		text, err := open(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if found && !strings.HasPrefix(name, "#") {
				add(name, value, file)
			}
		}
	}
	return out
}

// FromEnv is Read without files: of a process in which NCCL has read them.
func FromEnv(env []string) []Setting {
	out, _ := fromEnv(env)
	return out
}

// fromEnv returns the variables in env. The last value of a name is the one that counts.
func fromEnv(env []string) (out []Setting, known map[string]bool) {
	known = map[string]bool{}
	for _, entry := range slices.Backward(env) {
		name, value, _ := strings.Cut(entry, "=")
		if isOurs(name) && !known[name] {
			known[name] = true
			out = append(out, Setting{Name: name, Value: value})
		}
	}
	return out, known
}

func isOurs(name string) bool {
	return strings.HasPrefix(strings.TrimSpace(name), ncclPrefix) || strings.HasPrefix(name, ddlemuPrefix)
}

// Getenv returns the function that reads the variables in set, as os.Getenv does.
func Getenv(set []Setting) func(name string) string {
	return func(name string) string {
		for _, s := range set {
			if s.Name == name {
				return s.Value
			}
		}
		return ""
	}
}

// ParseInt reads a number as NCCL does (strtoll with base 0: decimal, 0x for hexadecimal, 0 for octal), and refuses
// what NCCL takes for another number than is written: it reads 4M as 4.
func ParseInt(text string) (int64, error) {
	text = strings.TrimLeft(text, " \t\n\v\f\r")
	end := len(numberIn(text))
	n, err := strconv.ParseInt(text[:end], 0, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("is out of range, so NCCL uses its default")
	case err != nil || end < len(text):
		return 0, fmt.Errorf("NCCL reads this as %d: give a number", n)
	}
	return n, nil
}

// numberIn is the beginning of text that strtoll reads, "" if it is no number.
func numberIn(text string) string {
	digits := text
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	sign := len(text) - len(digits)
	within := func(s, set string) int {
		if i := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune(set, r) }); i >= 0 {
			return i
		}
		return len(s)
	}
	if strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X") {
		if n := within(digits[2:], "0123456789abcdefABCDEF"); n > 0 {
			return text[:sign+2+n]
		}
		return text[:sign+1]
	}
	set := "0123456789"
	if strings.HasPrefix(digits, "0") {
		set = "01234567"
	}
	return text[:sign+within(digits, set)]
}
