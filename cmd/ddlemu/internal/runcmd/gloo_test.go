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
	for name, c := range map[string]struct {
		said []string
		want error
	}{
		"none":    {nil, errNoNCCL},
		"one":     {[]string{"gloo"}, errGloo},
		"several": {[]string{"gloo", "gloo", "gloo"}, errGloo},
		"direct":  {[]string{"gloo", "direct"}, errGlooDirect},
	} {
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
			for _, said := range c.said {
				conn, err := net.Dial("unixgram", "@"+address)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write([]byte(said)); err != nil {
					t.Fatal(err)
				}
				conn.Close()
			}
			if got := l.noRank(); !errors.Is(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
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
