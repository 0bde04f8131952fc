// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// waysToATable returns the blocks of commands in docs/install.md that end with a benchmark, each as one line with &&
// between the commands. A way has three commands at most.
func waysToATable(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	var ways []string
	for _, block := range regexp.MustCompile(`(?m)(^    \S.*\n)+`).FindAllString(string(page), -1) {
		var commands []string
		for line := range strings.Lines(block) {
			commands = append(commands, strings.TrimSpace(line))
		}
		if !strings.Contains(commands[len(commands)-1], "ddlemu bench ") {
			continue
		}
		if len(commands) > 3 {
			t.Errorf("%d commands to a table, more than 3: %q", len(commands), commands)
		}
		ways = append(ways, strings.Join(commands, " && "))
	}
	return ways
}
