// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/bounds"
)

// readApart reads the file of --apart: the reasons why tables are seen apart, by their names. "" is no file.
func readApart(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := bounds.ReadFile(path)
	if err != nil {
		return nil, cli.BadInput("--apart: %w", err)
	}
	reasons, err := parseApart(string(text))
	if err != nil {
		return nil, cli.BadInput("--apart: %s:%w", path, err)
	}
	return reasons, nil
}

// parseApart reads lines "NAME: REASON"; empty ones and those that begin with # say nothing. The error begins with the
// line.
func parseApart(text string) (map[string]string, error) {
	reasons := map[string]string{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, reason, ok := strings.Cut(line, ":")
		name, reason = strings.TrimSpace(name), strings.TrimSpace(reason)
		if _, twice := reasons[name]; twice {
			return nil, fmt.Errorf("%d: %s is there twice", n, name)
		}
		if !ok || name == "" || reason == "" {
			return nil, fmt.Errorf("%d: %q is not \"NAME: REASON\"", n, line)
		}
		reasons[name] = reason
	}
	return reasons, nil
}
