// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// maxPackages is how many packages may be linked into the trainer's process, the
// standard library's included. There were 107 when this was written.
const maxPackages = 120

// The plugin is a guest in the trainer's process: it links little, and nothing that
// starts threads, opens connections or registers handlers by itself.
func TestPluginLinksLittle(t *testing.T) {
	deps := packagesOf(t, ".")
	if len(deps) > maxPackages {
		t.Errorf("the plugin links %d packages, at most %d:\n%s", len(deps), maxPackages, strings.Join(deps, "\n"))
	}
	for _, name := range []string{
		"net/http", "crypto/tls", "crypto/rand", "html/template", "text/template", "encoding/gob", "encoding/json",
		"log/slog", "os/signal", "os/exec",
		"github.com/fsnotify/fsnotify", "github.com/spf13/viper", "github.com/spf13/pflag", "github.com/spf13/cobra",
	} {
		if slices.Contains(deps, name) {
			t.Errorf("the plugin links %s", name)
		}
	}
}

// Package state is the mapped file: it knows neither YAML nor what a user writes.
func TestStateKnowsNoConfiguration(t *testing.T) {
	for _, name := range packagesOf(t, "../shaper/fabric/state") {
		if strings.Contains(name, "yaml") || strings.Contains(name, "ddlemu/configs") ||
			strings.HasSuffix(name, "shaper/fabric") {
			t.Errorf("shaper/fabric/state imports %s", name)
		}
	}
}

// packagesOf lists the package in dir and everything that it links.
func packagesOf(t *testing.T, dir string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-tags", "netgo,osusergo", dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, stderr.String())
	}
	return strings.Fields(string(out))
}
