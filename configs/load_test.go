// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"slices"
	"strings"
	"testing"
)

func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestLoadFindsFabric(t *testing.T) {
	file := writeFile(t, "mine.yml", "base: hdr200")
	for _, c := range []struct {
		name string
		src  Source
		want string
	}{
		{"profile", Source{Profile: "eth1", Getenv: environ()}, "eth1"},
		{"file", Source{File: file, Getenv: environ()}, "mine"},
		{"file as profile", Source{Profile: file, Getenv: environ()}, "mine"},
		{"default", Source{Default: "loopback", Getenv: environ()}, "loopback"},
		{"environment over default", Source{Default: "loopback", Getenv: environ(ProfileEnv, "ndr400")}, "ndr400"},
		{"file in environment", Source{Getenv: environ(FileEnv, file)}, "mine"},
		{"flag over environment", Source{Profile: "eth1", Getenv: environ(FileEnv, file)}, "eth1"},
	} {
		f, err := Load(c.src)
		if err != nil || f.Name != c.want {
			t.Errorf("%s: %+v, %v; want %s", c.name, f, err, c.want)
		}
	}
}

func TestLoadOrigins(t *testing.T) {
	file := writeFile(t, "mine.yml", "base: hdr200\nnodes: 6\n")
	for _, c := range []struct {
		name, want string
		src        Source
	}{
		{"profile", "", Source{Profile: "eth1", Getenv: environ()}},
		{"file", file + ":2", Source{File: file, Getenv: environ()}},
		{"variable over file", "DDLEMU_NODES", Source{File: file, Getenv: environ("DDLEMU_NODES", "3")}},
		{"variable over profile", "DDLEMU_NODES", Source{Profile: "eth1", Getenv: environ("DDLEMU_NODES", "3")}},
	} {
		c.src.Origins = map[string]string{}
		_, err := Load(c.src)
		if _, all := c.src.Origins[""]; err != nil || all || c.src.Origins["nodes"] != c.want {
			t.Errorf("%s: %v, %v; want %s", c.name, c.src.Origins, err, c.want)
		}
	}
}

func TestLoadReadsProcessEnvironment(t *testing.T) {
	t.Setenv(ProfileEnv, "xdr800")
	f, err := Load(Source{})
	if err != nil || f.Name != "xdr800" {
		t.Errorf("got %+v, %v; want xdr800", f, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	small := writeFile(t, "small.yaml", "base: eth1\n")
	big := writeFile(t, "big.yaml", strings.Repeat("#", maxFile+1))
	for _, c := range []struct {
		name string
		src  Source
		want string
	}{
		{"nothing", Source{}, "no fabric is named: give --profile with one of dgx-a100-nvlink, efa-p4d, "},
		{"both", Source{Profile: "eth1", File: small}, "both the profile eth1 and the file"},
		{"wrong name", Source{Profile: "ndr40"}, `"ndr40" is not a profile: did you mean ndr400`},
		{"part of a name", Source{Profile: "wan"},
			`"wan" is not a profile: did you mean wan-continent, wan-metro or wan-region?`},
		{"far off", Source{Profile: "myrinet-2000-custom"},
			`"myrinet-2000-custom" is not a profile: there are dgx-a100-nvlink, efa-p4d, efa-p5`},
		{"no file", Source{File: "/nonexistent/f.yaml"},
			"fabric file /nonexistent/f.yaml does not exist: name a file, or"},
		{"folder", Source{File: "testdata"}, "fabric file testdata is a folder: name a file in it"},
		{"big file", Source{File: big}, "fabric file " + big + " is larger than 1048576 bytes"},
		{"bad variable", Source{Profile: "eth1", Getenv: environ("DDLEMU_BW", "100")}, `DDLEMU_BW: "100" has no unit`},
		{"variable out of range", Source{Profile: "eth1", Getenv: environ("DDLEMU_NODES", "0")},
			"DDLEMU_NODES: 0 is out of range: must be 1 to 256"},
		{"bad transport", Source{Profile: "eth1", Getenv: environ("DDLEMU_TRANSPORT", "udp")},
			`DDLEMU_TRANSPORT: "udp" is not one of tcp, rdma`},
	} {
		if c.src.Getenv == nil {
			c.src.Getenv = environ()
		}
		f, err := Load(c.src)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !IsUserError(err) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v\nwant %s", c.name, f, err, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string][]string{
		"ndr400": {"ndr400"}, "nrd400": {"ndr400"}, "eth": {"eth1", "eth10", "eth25-tcp"}, "NDR": {"ndr400"},
		"zzzzzzzzzzzz": nil,
	} {
		got := Nearest(word, ProfileNames())
		if len(want) == 0 && len(got) > 0 || len(want) > 0 && !slices.Equal(got[:min(len(got), len(want))], want) {
			t.Errorf("Nearest(%q) = %v, want %v first", word, got, want)
		}
	}
	if n := testing.AllocsPerRun(1, func() { Nearest(strings.Repeat("4d", 1<<19), []string{"p4d"}) }); n > 8 {
		t.Errorf("a name of 1 MiB makes %v allocations", n)
	}
}
