// SPDX-License-Identifier: Apache-2.0

// Package pages tests that a reader of README.md finds every page of docs, and that no link is dead.
package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// notInAnchor is what GitHub leaves out of a heading's anchor.
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages are the pages of the project, from its root.
func pages(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/examples/*/*.md", "configs/tables/*.md", "cuda/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("pages %s: %v, %d found", pattern, err, len(found))
		}
		files = append(files, found...)
	}
	return files
}

// fenced is a block of output or code.
var fenced = regexp.MustCompile("(?ms)^```.*?^```$")

// hasAnchor reports whether a page has a heading with that anchor.
func hasAnchor(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		words := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(words, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// Each link within the project leads to a file that exists, and to a heading of it.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			file := page
			if path != "" {
				file = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
			} else if anchor != "" && strings.HasSuffix(file, ".md") && !hasAnchor(read(t, file), anchor) {
				t.Errorf("%s: %s has no heading %q", page, file, anchor)
			}
		}
	}
}

// README leads to the index of docs, which has every page.
func TestIndex(t *testing.T) {
	if !strings.Contains(read(t, filepath.Join(root, "README.md")), "](docs/README.md)") {
		t.Error("README.md does not have docs/README.md")
	}
	index := read(t, filepath.Join(root, "docs", "README.md"))
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(found) < 2 {
		t.Fatalf("pages of docs: %v, %d found", err, len(found))
	}
	for _, page := range found {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not have %s", name)
		}
	}
}

// README is the first screen: a stranger reads it in a minute or two.
func TestReadmeIsShort(t *testing.T) {
	if n := len(strings.Fields(read(t, filepath.Join(root, "README.md")))); n > 700 {
		t.Errorf("README.md has %d words, want at most 700: the rest belongs to docs", n)
	}
}
