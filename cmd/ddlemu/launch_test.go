// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestCalledSSH(t *testing.T) {
	for from, want := range map[string]string{"/bin/ddlemu ssh x": "ssh x", "ddlemu-ssh -x node1": "ssh -x node1",
		"/a/ssh node1": "ssh node1", "ddlemu": ""} {
		if got := strings.Join(arguments(strings.Fields(from)), " "); got != want {
			t.Errorf("%s: got %q, want %q", from, got, want)
		}
	}
}
