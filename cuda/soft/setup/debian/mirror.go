// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
)

// MirrorVariable is the environment variable that overrides the mirror of apt's configuration.
const MirrorVariable = "DDLEMU_DEBIAN_MIRROR"

// ErrNoMirror means that apt's configuration has no mirror of Debian.
var ErrNoMirror = errors.New("find a Debian mirror: apt's configuration names none; set " + MirrorVariable +
	" to its URL")

// releases are the release names of Debian. Archives other than mirrors of Debian have other names.
var releases = map[string]bool{
	"stable": true, "oldstable": true, "testing": true, "unstable": true, "sid": true,
	"bullseye": true, "bookworm": true, "trixie": true, "forky": true, "duke": true,
}

// indexTargets are the arguments for apt-get to print a line "URI|RELEASE|COMPONENT" for each configured index.
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
