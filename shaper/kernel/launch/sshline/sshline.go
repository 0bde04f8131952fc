// SPDX-License-Identifier: Apache-2.0

// Package sshline reads a command line of OpenSSH's ssh, as launchers write it.
package sshline

import (
	"fmt"
	"strings"
)

// Line is what a command line asks for. What it says about the connection itself,
// such as ciphers and keys, has no meaning between emulated nodes and is left out.
type Line struct {
	User    string // "" if none is named
	Host    string
	NoInput bool     // -n: standard input is /dev/null
	Command []string // to be joined by spaces; none for a login shell
}

// Text is the command as the user's shell gets it.
func (l *Line) Text() string { return strings.Join(l.Command, " ") }

// The options of ssh(1) of OpenSSH 9: those with a value, and those that change
// what is run and that emulated nodes cannot have.
const (
	plain     = "1246AaCKkMqTtvXxYyg"
	withValue = "BbcDEeFIiJLlmOoPpQRSWw"
)

var refused = map[byte]string{
	'D': "forwarding", 'L': "forwarding", 'R': "forwarding", 'W': "forwarding", 'w': "forwarding", 'J': "a jump host",
	'f': "going to the background", 'N': "a connection without a command", 's': "a subsystem",
	'O': "control commands", 'G': "printing the configuration", 'Q': "questions about algorithms", 'V': "the version",
}

// refusedSettings are those of -o that change what is run.
var refusedSettings = map[string]bool{
	"setenv": true, "remotecommand": true, "sessiontype": true, "localcommand": true, "proxyjump": true, "hostname": true,
	"localforward": true, "remoteforward": true, "dynamicforward": true, "tunnel": true, "forkafterauthentication": true,
}

// Parse reads the arguments of ssh: options, the host, options again, the command.
func Parse(args []string) (Line, error) {
	var l Line
	args, err := l.options(args)
	if err != nil {
		return Line{}, err
	}
	if len(args) == 0 {
		return Line{}, fmt.Errorf("ssh needs a node: ddlemu ssh node0 COMMAND")
	}
	if err := l.host(args[0]); err != nil {
		return Line{}, err
	}
	if l.Command, err = l.options(args[1:]); err != nil {
		return Line{}, err
	}
	return l, nil
}

// host reads [user@]host or ssh://[user@]host[:port].
func (l *Line) host(text string) error {
	if uri, ok := strings.CutPrefix(text, "ssh://"); ok {
		text, _, _ = strings.Cut(uri, "/")
		if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
			text = text[:i]
		}
	}
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		if l.User == "" { // -l counts, if it came before
			l.User = text[:i]
		}
		text = text[i+1:]
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	if text == "" {
		return fmt.Errorf("ssh needs a node: ddlemu ssh node0 COMMAND")
	}
	l.Host = text
	return nil
}

// options reads the options that args begin with and returns the rest.
func (l *Line) options(args []string) ([]string, error) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		group := args[0][1:]
		args = args[1:]
		if group == "-" {
			break
		}
		for i := 0; i < len(group); i++ {
			option, value := group[i], ""
			if strings.IndexByte(withValue, option) >= 0 {
				if value = group[i+1:]; value == "" {
					if len(args) == 0 {
						return nil, fmt.Errorf("-%c needs a value", option)
					}
					value, args = args[0], args[1:]
				}
				i = len(group)
			}
			if err := l.option(option, value); err != nil {
				return nil, err
			}
		}
	}
	return args, nil
}

func (l *Line) option(option byte, value string) error {
	if what := refused[option]; what != "" {
		return fmt.Errorf("-%c: emulated nodes are not reached through a connection, so there is no %s", option, what)
	}
	switch {
	case option == 'n':
		l.NoInput = true
	case option == 'l':
		l.User = value
	case option == 'o':
		return l.setting(value)
	case strings.IndexByte(plain, option) < 0 && strings.IndexByte(withValue, option) < 0:
		return fmt.Errorf("-%c: ssh has no such option", option)
	}
	return nil
}

// setting reads what follows -o: Name=value or "Name value".
func (l *Line) setting(text string) error {
	i := strings.IndexAny(text, "= \t")
	if i < 0 {
		return fmt.Errorf("-o %s: want NAME=VALUE", text)
	}
	name, value := strings.ToLower(text[:i]), strings.TrimLeft(text[i:], "= \t")
	switch {
	case name == "user" && l.User == "":
		l.User = value
	case name == "stdinnull":
		l.NoInput = strings.EqualFold(value, "yes")
	case refusedSettings[name] && !strings.EqualFold(value, "none"): // as scp says of some
		return fmt.Errorf("-o %s: emulated nodes are not reached through a connection, so this has no effect: leave it out", text)
	}
	return nil
}
