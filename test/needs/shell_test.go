// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"regexp"
	"slices"
	"strings"
)

// A word that the shell computes is known only when it runs.
const computed = "\x00"

var (
	// reserved words begin or end a compound command: the word after them is a command.
	reserved = strings.Fields("if then else elif fi while until do done { } ! time")
	// builtins are run by the shell itself.
	builtins = strings.Fields(
		": . [ [[ alias bg break cd compgen continue declare echo eval exit export false fg getopts hash jobs kill let local mapfile printf pwd read readonly return set shift shopt source test times trap true type typeset ulimit umask unset wait esac")

	assignment = regexp.MustCompile(`^[A-Za-z_]\w*(\[[^]]*\])?\+?=`)
)

// shell reads a script of sh or bash, as far as is needed to find the commands in it.
type shell struct {
	text      string
	at        int
	commands  [][]string
	functions []string
	heredocs  []string // whose lines begin after this line
}

// inShell returns the programs that a script starts: the first word of each command, without what the shell has
// itself, and without the functions of the script, nor those of others, if it includes them.
func inShell(script string, others ...string) []string {
	s := read(script)
	var found []string
	for _, words := range s.commands {
		for _, p := range programsOf(words, true) {
			if !slices.Contains(s.functions, p) && !slices.Contains(others, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

// read reads a script.
func read(script string) *shell {
	s := &shell{text: script}
	for s.at < len(s.text) {
		s.list("")
	}
	return s
}

// programsOf returns the programs that a command starts: the first, and the one that this starts in turn. The shell
// has some commands itself.
func programsOf(words []string, shell bool) []string {
	for shell && len(words) > 0 && (assignment.MatchString(words[0]) || slices.Contains(reserved, words[0])) {
		words = words[1:]
	}
	if len(words) == 0 || words[0] == "" || strings.Contains(words[0], computed) || strings.HasPrefix(words[0], "-") {
		return nil
	}
	name, rest := words[0], words[1:]
	var found []string
	switch {
	case shell && (name == "exec" || name == "command"):
		return programsOf(afterFlags(rest, ""), false)
	case shell &&
		(slices.Contains(builtins, name) || slices.Contains([]string{"for", "case", "select", "function", "in"}, name)):
		return nil
	}
	found = append(found, name)
	switch name {
	case "sh", "bash":
		if i := slices.Index(rest, "-c"); i >= 0 && i+1 < len(rest) {
			return append(found, inShell(rest[i+1])...)
		}
	case "env", "nohup", "setsid", "setarch", "stdbuf":
		return append(found, programsOf(afterFlags(rest, "-u --unset -C"), false)...)
	case "xargs":
		return append(found, programsOf(afterFlags(rest, "-d -n -P -I -L"), false)...)
	case "nice":
		return append(found, programsOf(afterFlags(rest, "-n"), false)...)
	case "timeout":
		rest = afterFlags(rest, "-k -s")
		return append(found, programsOf(rest[min(1, len(rest)):], false)...)
	}
	if i := slices.Index(rest, "--"); i >= 0 {
		return append(found, programsOf(rest[i+1:], false)...)
	}
	if name == "ddlemu" && len(rest) > 2 && rest[0] == "exec" {
		return append(found, programsOf(rest[2:], false)...)
	}
	// unshare and the launchers of MPI end their flags without --: a shell, if they start one, is found.
	for i, w := range rest {
		if (w == "sh" || w == "bash") && i+2 < len(rest) && rest[i+1] == "-c" {
			return append(found, programsOf(rest[i:], false)...)
		}
	}
	return found
}

// afterFlags is what follows the flags and the variables of a program that starts another. Those of withValue have a
// word of their own behind them.
func afterFlags(words []string, withValue string) []string {
	for len(words) > 0 && (strings.HasPrefix(words[0], "-") || assignment.MatchString(words[0])) {
		if slices.Contains(strings.Fields(withValue), words[0]) {
			words = words[1:]
		}
		words = words[min(1, len(words)):]
	}
	return words
}

// list reads commands up to the closing bracket, or up to the end.
func (s *shell) list(closing string) {
	var words []string
	end := func() {
		if len(words) > 0 {
			s.commands = append(s.commands, words)
		}
		words = nil
	}
	inCase := 0 // 1 behind the word case, 2 where a pattern is expected
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		if closing != "" && strings.HasPrefix(rest, closing) && inCase != 2 {
			s.at += len(closing)
			break
		}
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "\\\n"):
			s.at += 2
		case c == ' ' || c == '\t':
			s.at++
		case c == '#':
			s.at += len(line(rest))
		case c == '\n':
			end()
			s.at++
			s.skipHeredocs()
		case strings.HasPrefix(rest, ";;"):
			end()
			s.at += 2
			inCase = 2
		case inCase == 2 && !strings.HasPrefix(rest, "esac"):
			s.at += strings.Index(rest+")", ")") + 1 // the pattern
			inCase = 1
		case strings.ContainsRune(";|&", rune(c)) && !strings.HasPrefix(rest, "&>"):
			end()
			s.at++
		case c == '(' && len(words) == 1 && strings.HasPrefix(strings.TrimLeft(rest[1:], " "), ")"):
			s.functions = append(s.functions, words[0])
			words = nil
			s.at += strings.Index(rest, ")") + 1
		case strings.HasPrefix(rest, "((") && len(words) == 0: // arithmetic
			s.at += strings.Index(rest+"))", "))") + 2
		case c == '(':
			end()
			s.at++
			s.list(")")
		case c == ')':
			end()
			s.at++
		case c == '<' || c == '>' || strings.HasPrefix(rest, "&>"):
			s.redirection(rest)
		default:
			w, file := s.word()
			if file { // the number of a file before a redirection
				break
			}
			switch {
			case w == "case" && len(words) == 0:
				inCase = 1
			case w == "in" && inCase == 1 && len(words) == 2 && words[0] == "case":
				words, inCase = nil, 2
				continue
			case w == "esac" && inCase > 0:
				inCase = 0
			}
			words = append(words, w)
			if len(words) == 1 && slices.Contains(reserved, w) {
				words = nil
			}
			if w == "[[" && len(words) == 1 { // its words are no commands
				s.at += strings.Index(s.text[s.at:]+"]]", "]]")
			}
		}
	}
	end()
}

// line is the text up to the end of the line.
func line(text string) string {
	before, _, _ := strings.Cut(text, "\n")
	return before
}

// redirection skips an operator and its file. The lines of a here-document are skipped behind this line.
func (s *shell) redirection(rest string) {
	op := regexp.MustCompile(`^(<<<|<<-?|&>>?|[<>]\(|[<>]&|>>|>\||<>|<|>)`).FindString(rest)
	s.at += len(op)
	if strings.HasSuffix(op, "(") { // of a process
		s.list(")")
		return
	}
	for s.at < len(s.text) && s.text[s.at] == ' ' {
		s.at++
	}
	w, _ := s.word()
	if strings.HasPrefix(op, "<<") && op != "<<<" {
		s.heredocs = append(s.heredocs, w)
	}
}

func (s *shell) skipHeredocs() {
	for _, end := range s.heredocs {
		for s.at < len(s.text) {
			l := line(s.text[s.at:])
			s.at = min(s.at+len(l)+1, len(s.text))
			if strings.TrimLeft(l, "\t") == end {
				break
			}
		}
	}
	s.heredocs = nil
}

// word reads a word. The commands in it are commands too. isNumber reports that it is the number of a file before a
// redirection.
func (s *shell) word() (w string, isNumber bool) {
	var b strings.Builder
	known := true
	from := s.at
	for s.at < len(s.text) && !strings.ContainsRune(" \t\n;|&()<>", rune(s.text[s.at])) {
		switch c := s.text[s.at]; c {
		case '\\':
			if s.at+1 < len(s.text) {
				b.WriteByte(s.text[s.at+1])
			}
			s.at += 2
		case '\'':
			quoted, _, _ := strings.Cut(s.text[s.at+1:], "'")
			b.WriteString(quoted)
			s.at += len(quoted) + 2
		case '"':
			s.at++
			known = s.quoted(&b) && known
		case '$', '`':
			s.expansion()
			known = false
		default:
			b.WriteByte(c)
			s.at++
			if c == '=' && s.at < len(s.text) && s.text[s.at] == '(' && assignment.MatchString(b.String()) { // an array
				s.at++
				array := &shell{text: s.text, at: s.at}
				array.list(")")
				s.at = array.at
			}
		}
	}
	s.at = min(s.at, len(s.text))
	w = b.String()
	if s.at < len(s.text) && strings.ContainsRune("<>", rune(s.text[s.at])) &&
		regexp.MustCompile(`^[0-9]$`).MatchString(s.text[from:s.at]) {
		return w, true
	}
	if !known && !assignment.MatchString(w) {
		return computed, false
	}
	return w, false
}

// quoted reads up to the closing quotation mark, and reports whether it has no expansion.
func (s *shell) quoted(b *strings.Builder) bool {
	known := true
	for s.at < len(s.text) && s.text[s.at] != '"' {
		switch c := s.text[s.at]; c {
		case '\\':
			if s.at+1 < len(s.text) {
				b.WriteByte(s.text[s.at+1])
			}
			s.at += 2
		case '$', '`':
			s.expansion()
			known = false
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	s.at++
	return known
}

// expansion reads what begins with a dollar sign or a backtick. Commands in it are commands.
func (s *shell) expansion() {
	rest := s.text[s.at:]
	switch {
	case strings.HasPrefix(rest, "$(("):
		s.at += strings.Index(rest+"))", "))") + 2
	case strings.HasPrefix(rest, "$("):
		s.at += 2
		s.list(")")
	case strings.HasPrefix(rest, "${"):
		for depth := 0; s.at < len(s.text); {
			c := s.text[s.at]
			s.at++
			if c == '{' {
				depth++
			} else if c == '}' {
				depth--
				if depth == 0 {
					return
				}
			}
		}
	case rest[0] == '`':
		inner, _, _ := strings.Cut(rest[1:], "`")
		s.at += len(inner) + 2
		sub := &shell{text: inner}
		sub.list("")
		s.commands = append(s.commands, sub.commands...)
	default:
		s.at += 1 + len(regexp.MustCompile(`^(\w+|.)?`).FindString(rest[1:]))
	}
}
