// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"errors"
	"net"
	"strings"
	"testing"
)

// What ranks have said is heard after they have ended.
func TestGlooListener(t *testing.T) {
	for name, ranks := range map[string]int{"none": 0, "one": 1, "several": 5} {
		t.Run(name, func(t *testing.T) {
			l, err := listenForGloo()
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			address, found := strings.CutPrefix(l.variable(), glooEnv+"=")
			if !found || address == "" {
				t.Fatalf("%q names no socket", l.variable())
			}
			for range ranks {
				conn, err := net.Dial("unixgram", "@"+address)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write([]byte("gloo")); err != nil {
					t.Fatal(err)
				}
				conn.Close()
			}
			if got, want := l.used(), ranks > 0; got != want {
				t.Errorf("used: %v, want %v", got, want)
			}
		})
	}
}

func TestGlooIsNoRank(t *testing.T) {
	const want = "your job used gloo: no rank took part: its messages crossed no emulated link: " +
		"add --torch-alias gloo, and NCCL carries them"
	if !errors.Is(errGloo, errNoRank) || errGloo.Error() != want {
		t.Error(errGloo)
	}
}
