// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
)

// MirrorVariable overrides the mirror that is found in apt's configuration.
const MirrorVariable = "DDLEMU_DEBIAN_MIRROR"

// ErrNoMirror says that apt's configuration names no mirror of Debian.
var ErrNoMirror = errors.New("find a Debian mirror: apt's configuration names none; set " + MirrorVariable + " to its URL")

// releases are the names under which a mirror of Debian itself is known: other archives have other ones.
var releases = map[string]bool{
	"stable": true, "oldstable": true, "testing": true, "unstable": true, "sid": true,
	"bullseye": true, "bookworm": true, "trixie": true, "forky": true, "duke": true,
}

// indexTargets makes apt print a line "URI|RELEASE|COMPONENT" for each index it knows.
var indexTargets = []string{"indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages"}

// Mirror returns the URL of the Debian mirror that this machine uses.
func Mirror() (string, error) {
	if url := os.Getenv(MirrorVariable); url != "" {
		return url, nil
	}
	out, err := exec.Command("apt-get", indexTargets...).Output()
	if err != nil {
		return "", describe("read apt's configuration", out, err)
	}
	return mirrorFrom(string(out))
}

func mirrorFrom(targets string) (string, error) {
	lines := bufio.NewScanner(strings.NewReader(targets))
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "|")
		if len(fields) == 3 && releases[fields[1]] && fields[2] == "main" && strings.Contains(fields[0], ":/") {
			return fields[0], nil
		}
	}
	return "", ErrNoMirror
}
