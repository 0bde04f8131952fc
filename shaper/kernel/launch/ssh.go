// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"strings"
)

// SSHCommand is a parsed command line of ssh. Options of the connection itself, such as ciphers and keys, are
// dropped: there is no connection between emulated nodes.
type SSHCommand struct {
	User    string // "" if none is named
	Host    string
	NoInput bool     // -n: standard input is /dev/null
	Command []string // empty for a login shell
}

// Text returns the command line for the user's shelc.
func (c *SSHCommand) Text() string { return strings.Join(c.Command, " ") }

// The options of ssh(1) of OpenSSH 9.
const (
	optionsWithoutValue = "1246AaCKkMqTtvXxYyg"
	optionsWithValue    = "BbcDEeFIiJLlmOoPpQRSWw"
)

// refusedOptions change the command in a way that emulated nodes do not support. The values complete an error message.
var refusedOptions = map[byte]string{
	'D': "forwarding", 'L': "forwarding", 'R': "forwarding", 'W': "forwarding", 'w': "forwarding", 'J': "a jump host",
	'f': "going to the background", 'N': "a connection without a command", 's': "a subsystem",
	'O': "control commands", 'G': "printing the configuration", 'Q': "questions about algorithms", 'V': "the version",
}

// refusedSettings are the keywords of -o that do the same.
var refusedSettings = map[string]bool{
	"setenv": true, "remotecommand": true, "sessiontype": true, "localcommand": true, "proxyjump": true,
	"hostname":     true,
	"localforward": true, "remoteforward": true, "dynamicforward": true, "tunnel": true,
	"forkafterauthentication": true,
}

// ParseSSH parses the arguments of ssh: options, the host, more options, the command. The error names an option that
// ssh does not have or that emulated nodes do not support.
func ParseSSH(args []string) (SSHCommand, error) {
	var c SSHCommand
	args, err := c.parseOptions(args)
	if err != nil {
		return SSHCommand{}, err
	}
	if len(args) == 0 {
		return SSHCommand{}, fmt.Errorf("ssh needs a node: ddlemu ssh node0 COMMAND")
	}
	if err := c.parseHost(args[0]); err != nil {
		return SSHCommand{}, err
	}
	if c.Command, err = c.parseOptions(args[1:]); err != nil {
		return SSHCommand{}, err
	}
	return c, nil
}

// parseHost parses [user@]host or ssh://[user@]host[:port].
func (c *SSHCommand) parseHost(text string) error {
	if uri, ok := strings.CutPrefix(text, "ssh://"); ok {
		text, _, _ = strings.Cut(uri, "/")
		if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, ']') {
			text = text[:i]
		}
	}
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		if c.User == "" { // an earlier -l has precedence
			c.User = text[:i]
		}
		text = text[i+1:]
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	if text == "" {
		return fmt.Errorf("ssh needs a node: ddlemu ssh node0 COMMAND")
	}
	c.Host = text
	return nil
}

// parseOptions parses the options at the beginning of args and returns the rest.
func (c *SSHCommand) parseOptions(args []string) ([]string, error) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		letters := args[0][1:]
		args = args[1:]
		if letters == "-" {
			break
		}
		for i := 0; i < len(letters); i++ {
			option, value := letters[i], ""
			if strings.IndexByte(optionsWithValue, option) >= 0 {
				if value = letters[i+1:]; value == "" {
					if len(args) == 0 {
						return nil, fmt.Errorf("-%c needs a value", option)
					}
					value, args = args[0], args[1:]
				}
				i = len(letters)
			}
			if err := c.setOption(option, value); err != nil {
				return nil, err
			}
		}
	}
	return args, nil
}

func (c *SSHCommand) setOption(option byte, value string) error {
	if what := refusedOptions[option]; what != "" {
		return fmt.Errorf("-%c: %s: not supported, because emulated nodes are not reached through a connection", option,
			what)
	}
	switch {
	case option == 'n':
		c.NoInput = true
	case option == 'l':
		c.User = value
	case option == 'o':
		return c.parseSetting(value)
	case strings.IndexByte(optionsWithoutValue, option) < 0 && strings.IndexByte(optionsWithValue, option) < 0:
		return fmt.Errorf("-%c: ssh has no such option", option)
	}
	return nil
}

// parseSetting parses the value of -o: Name=value or "Name value".
func (c *SSHCommand) parseSetting(text string) error {
	i := strings.IndexAny(text, "= \t")
	if i < 0 {
		return fmt.Errorf("-o %s: want NAME=VALUE", text)
	}
	name, value := strings.ToLower(text[:i]), strings.TrimLeft(text[i:], "= \t")
	switch {
	case name == "user" && c.User == "":
		c.User = value
	case name == "stdinnull":
		c.NoInput = strings.EqualFold(value, "yes")
	case refusedSettings[name] && !strings.EqualFold(value, "none"): // scp passes some with the value none
		return fmt.Errorf(
			"-o %s: emulated nodes are not reached through a connection, so this setting has no effect: leave it out",
			text)
	}
	return nil
}
