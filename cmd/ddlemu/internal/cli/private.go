// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Default is the name of the only fabric that a user brought up, "" if no fabric is up. A private fabric is never the
// default: if there are only such, the error says whose they are.
func (g *Global) Default(dir *state.Dir) (string, error) {
	name, err := dir.Shared()
	if err != nil {
		return "", BadInput("%w or with --fabric", err)
	}
	if name != "" {
		return name, nil
	}
	names, err := dir.Names()
	if err != nil {
		return "", err
	}
	var private []string
	for _, n := range names {
		if owner := OwnerInUse(dir, n); owner != "" {
			private = append(private, n+" "+owner)
		}
	}
	if len(private) == 0 {
		return "", nil
	}
	return "", BadInput("only private fabrics are up, which are no default: %s: name one with --fabric, or bring up one "+
		"of yours with `%s`", strings.Join(private, "; "), g.UpCommand(""))
}

// OwnerInUse says whose the fabric called name is, if it is private to a command or a job that still runs; "" if not.
func OwnerInUse(dir *state.Dir, name string) string {
	if !state.IsPrivate(name) {
		return ""
	}
	file, err := dir.Open(name)
	if err != nil {
		return "" // nobody can use it
	}
	defer file.Close()
	file.Reap()
	if !file.InUse() && file.LiveRanks() == 0 {
		return ""
	}
	return Owner(file)
}

// TellPrivate says whose a private fabric is that a command changes or ends, because a user named it.
func (g *Global) TellPrivate(file *state.File) {
	if owner := Owner(file); owner != "" {
		fmt.Fprintf(g.Stderr, "ddlemu: fabric %s %s\n", file.Name(), owner)
	}
}

// Owner says whose a private fabric is, "" of one that a user brought up.
func Owner(file *state.File) string {
	if !state.IsPrivate(file.Name()) {
		return ""
	}
	pid := file.User()
	ranks := file.Ranks()
	if pid == 0 && len(ranks) > 0 {
		pid = int(ranks[0].PID)
	}
	if pid == 0 {
		return "is private to a command that has ended or cannot be seen from here"
	}
	text := fmt.Sprintf("is private to process %d", pid)
	if name := userOf(pid); name != "" {
		text += " of user " + name
	}
	if command := commandLine(pid); command != "" {
		text += " (" + command + ")"
	}
	return text
}

// userOf is the name of the user that runs a process, "" if it has ended.
func userOf(pid int) string {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	uid := strconv.Itoa(int(stat.Uid))
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}

// longestCommand is how many characters of a command line are shown.
const longestCommand = 120

// commandLine is the command line of a process as words for a shell, "" if it cannot be read.
func commandLine(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return ""
	}
	words := slices.Collect(strings.SplitSeq(string(bytes.TrimSuffix(b, []byte{0})), "\x00"))
	for i := range words {
		words[i] = strconv.Quote(Quote(words[i]))
		words[i] = words[i][1 : len(words[i])-1] // a line break must not look like a line of ddlemu
	}
	line := []rune(strings.Join(words, " "))
	if len(line) > longestCommand {
		return string(line[:longestCommand]) + " …"
	}
	return string(line)
}
