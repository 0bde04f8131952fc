// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// neverEnded is the result of a test that began and did not end.
const neverEnded = "it began and did not end"

// readPytest returns the results that results_plugin.py has written, by "Class.test". A test that failed stays so,
// whatever its teardown says.
func readPytest(content []byte) (map[string]result, error) {
	results := map[string]result{}
	for _, line := range bytes.Split(bytes.TrimSpace(content), []byte("\n")) {
		var r struct{ Name, State, Text string }
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read the results of pytest: %w: %q", err, line)
		}
		if r.State == "started" {
			r.State, r.Text = "failed", neverEnded
		} else if before, found := results[r.Name]; found && before.state == "failed" && before.text != neverEnded {
			continue
		}
		results[r.Name] = result{r.State, r.Text}
	}
	return results, nil
}

// readGoTest returns the results of `go test -json`, without tests that have parts.
func readGoTest(out string) map[string]result {
	results, texts := map[string]result{}, map[string]string{}
	scanner := bufio.NewScanner(strings.NewReader(out))
	scanner.Buffer(nil, len(out)+1)
	for scanner.Scan() {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(scanner.Bytes(), &event) != nil || event.Test == "" {
			continue
		}
		switch event.Action {
		case "output":
			texts[event.Test] += event.Output
		case "pass", "fail", "skip":
			state := map[string]string{"pass": "passed", "fail": "failed", "skip": "skipped"}[event.Action]
			results[event.Test] = result{state, texts[event.Test]}
		}
	}
	for name := range results {
		for parent := name; strings.Contains(parent, "/"); {
			parent = parent[:strings.LastIndex(parent, "/")]
			delete(results, parent)
		}
	}
	return results
}
