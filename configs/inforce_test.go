// SPDX-License-Identifier: Apache-2.0

package configs

import "testing"

// What a flag or a variable has changed is named, with what the profile has.
func TestInForce(t *testing.T) {
	for _, tc := range []struct {
		set  map[string]string // by flag
		want string
	}{
		{nil, ""},
		{map[string]string{"bw": "400G", "nodes": "3"}, ""}, // what the profile has, and no link
		{map[string]string{"loss": "0.1"}, "ndr400 with loss 10% (none)"},
		{map[string]string{"bw": "1G", "loss": "0.1"}, "ndr400 with bandwidth 1Gbps (400Gbps), loss 10% (none)"},
		{map[string]string{"lat": "5us", "jitter": "none", "queue": "taildrop:1M"},
			"ndr400 with latency 5µs (1.2µs), jitter none (normal:60ns), queue taildrop:1M (lossless:1M)"},
		{map[string]string{"transport": "tcp", "congestion": "reno"},
			"ndr400 with transport tcp (rdma), congestion control reno (none)"},
	} {
		var base Fabric
		src := Source{Profile: "ndr400", Unset: &base, Getenv: func(string) string { return "" },
			Setting: func(s *Setting) (text, where string) {
				if text = tc.set[s.Flag]; text != "" {
					where = "--" + s.Flag
				}
				return text, where
			}}
		f, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.InForce(&base); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.set, got, tc.want)
		}
	}
}

// What a file lacks and a flag gives is no error: the file is not checked without the flag.
func TestUnset(t *testing.T) {
	var base Fabric
	f, err := Load(Source{File: "f.yaml", Text: []byte("base: ndr400\nnode_time: on\n"), Unset: &base,
		Getenv: func(string) string { return "" },
		Setting: func(s *Setting) (text, where string) {
			switch s.Flag {
			case "gpu":
				return "h100-sxm", "--gpu"
			case "loss":
				return "1%", "--loss"
			}
			return "", ""
		}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.InForce(&base), base.Name+" with loss 1% (none)"; base.GPU != nil || got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
