// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"strings"
)

// readJUnit returns the results of pytest's JUnit file, by "Class.test".
func readJUnit(content []byte) (map[string]result, error) {
	type problem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	var file struct {
		Cases []struct {
			Class   string    `xml:"classname,attr"`
			Name    string    `xml:"name,attr"`
			Failed  []problem `xml:"failure"`
			Errors  []problem `xml:"error"`
			Skipped []problem `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(content, &file); err != nil {
		return nil, err
	}
	results := map[string]result{}
	for _, c := range file.Cases {
		name := c.Class[strings.LastIndex(c.Class, ".")+1:] + "." + c.Name
		switch problems := append(c.Failed, c.Errors...); {
		case len(problems) > 0:
			results[name] = result{"failed", problems[0].Message + "\n" + problems[0].Text}
		case len(c.Skipped) > 0:
			results[name] = result{"skipped", c.Skipped[0].Message}
		default:
			results[name] = result{"passed", ""}
		}
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
