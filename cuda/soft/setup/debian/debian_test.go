// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMirrorFrom(t *testing.T) {
	tests := []struct {
		name, targets, want string
	}{
		{"bookworm",
			"http://mirror.test/debian/|bookworm|main\nhttp://mirror.test/debian-security/|bookworm-security|main\n",
			"http://mirror.test/debian/"},
		{"others first",
			"https://other.test/node|nodistro|main\nhttp://sec.test/|trixie-security|main\nhttps://m.test/debian|trixie|main\n", "https://m.test/debian"},
		{"by class", "http://m.test/debian|stable|main\n", "http://m.test/debian"},
		{"snapshot", "http://snap.test/archive/debian/20250520T000000Z|bookworm|main",
			"http://snap.test/archive/debian/20250520T000000Z"},
		{"not Debian", "http://m.test/ubuntu|noble|main\n", ""},
		{"contrib only", "http://m.test/debian|bookworm|contrib\n", ""},
		{"nothing", "", ""},
		{"malformed", "|||\nbookworm\nx|bookworm|main\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mirrorFrom(tt.targets)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if err != nil && !errors.Is(err, ErrNoMirror) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestMirrorVariable(t *testing.T) {
	t.Setenv(MirrorVariable, "http://mine.test/debian")
	got, err := Mirror()
	if err != nil || got != "http://mine.test/debian" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestVersionsFrom(t *testing.T) {
	madison := "libnccl-dev | 2.29.7-1-1 | http://m.test/debian sid/contrib amd64 Packages\n" +
		" libnccl-dev |  2.22.3-1-1 | http://m.test/debian trixie/contrib amd64 Packages\n" +
		"libnccl2 | 2.30.1-1 | http://m.test/debian sid/contrib amd64 Packages\n\nW: something\n"
	want := []string{"2.29.7-1-1", "2.22.3-1-1"}
	if diff := cmp.Diff(want, versionsFrom(madison, "libnccl-dev")); diff != "" {
		t.Error(diff)
	}
}

func TestPercentFrom(t *testing.T) {
	tests := []struct {
		line string
		want float64 // -1: no progress
	}{
		{"dlstatus:1:0.0524:Retrieving file 1 of 1", 0.0524},
		{"dlstatus:1:100.0000:Retrieving file 1 of 1 (2s: left)", 100},
		{"pmstatus:dpkg:50:x", -1},
		{"dlstatus:1:101:x", -1},
		{"dlstatus:1:x:y", -1},
		{"dlstatus:1", -1},
		{"", -1},
	}
	for _, tt := range tests {
		got, ok := percentFrom(tt.line)
		if !ok {
			got = -1
		}
		if got != tt.want {
			t.Errorf("%q: got %v, want %v", tt.line, got, tt.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	failed := errors.New("exit status 100")
	tests := []struct {
		name, output, want string
		untrusted          bool
	}{
		{"key missing",
			"Err:1 http://m.test sid InRelease\n  couldn't be verified: NO_PUBKEY 0123\nE: Some index files failed\n",
			"", true},
		{"not signed", "E: The repository 'http://m.test sid Release' is not signed.\n", "", true},
		{"no network", "Reading...\nE: Failed to fetch http://m.test  Could not resolve 'm.test'\nE: more\n",
			"fetch: Failed to fetch http://m.test  Could not resolve 'm.test'", false},
		{"silent", "", "fetch: exit status 100", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := describe("fetch", []byte(tt.output), failed)
			if errors.Is(err, ErrUntrusted) != tt.untrusted || (tt.want != "" && err.Error() != tt.want) {
				t.Errorf("got %q", err)
			}
		})
	}
}

func TestDependsFrom(t *testing.T) {
	got := dependsFrom(
		"linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n  Suggests: x\n |Depends: y\n  Depends: <z>\n")
	if want := []string{"linux-image-6.1.0-56-cloud-amd64", "<z>"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
