// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Each heading of a version in CHANGELOG.md has a date, later ones come first, and every tag has a heading.
func TestChangelogVersions(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(headings) < 2 || headings[0][1] != "Unreleased" {
		t.Fatalf("the headings are %q: want Unreleased and versions below it", headings)
	}
	form := regexp.MustCompile(`^(v\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})$`)
	var versions, dates []string
	for _, h := range headings[1:] {
		found := form.FindStringSubmatch(h[1])
		if found == nil {
			t.Fatalf("heading %q: want `## vMAJOR.MINOR.PATCH - YYYY-MM-DD`", h[1])
		}
		if _, err := time.Parse(time.DateOnly, found[2]); err != nil {
			t.Error(err)
		}
		versions, dates = append(versions, found[1]), append(dates, found[2])
	}
	for i := range versions[1:] {
		if slices.Compare(numbers(versions[i]), numbers(versions[i+1])) <= 0 || dates[i] < dates[i+1] {
			t.Errorf("%s of %s is above %s of %s", versions[i], dates[i], versions[i+1], dates[i+1])
		}
	}
	tags, err := exec.Command("git", "tag", "--list", "v[0-9]*").Output()
	if err != nil {
		t.Skipf("SKIPPED: the tags cannot be listed here: %v", err)
	}
	for _, tag := range strings.Fields(string(tags)) {
		if !slices.Contains(versions, tag) {
			t.Errorf("CHANGELOG.md has no heading of the tag %s", tag)
		}
	}
}

// numbers are the three numbers of a version such as v0.1.0.
func numbers(version string) []int {
	var all []int
	for _, text := range strings.Split(strings.TrimPrefix(version, "v"), ".") {
		n, _ := strconv.Atoi(text) // the form of the heading has only digits
		all = append(all, n)
	}
	return all
}

// CHANGELOG.md has lines of at most 120 columns, and says nothing twice in the same words.
func TestChangelogLines(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i, line := range strings.Split(string(text), "\n") {
		if n := utf8.RuneCountInString(line); n > 120 {
			t.Errorf("line %d has %d columns", i+1, n)
		}
		if first, is := seen[line]; is && strings.HasPrefix(line, "- ") {
			t.Errorf("line %d is line %d once more", i+1, first)
		}
		seen[line] = i + 1
	}
}

// project is a folder with the scripts that know of versions, and a CHANGELOG.md.
type project string

// newProject makes a project whose newest version, v0.2.0, has a date.
func newProject(t *testing.T, date string) project {
	t.Helper()
	p := project(t.TempDir())
	if err := os.Mkdir(filepath.Join(string(p), ".ci"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".ci/version", ".ci/tag"} {
		script, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		p.write(t, name, string(script))
	}
	p.write(t, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## v0.2.0 - "+date+
		"\n\n### Added\n\n- News.\n\n## v0.1.0 - 2026-01-01\n\nOld.\n")
	return p
}

func (p project) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(string(p), name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a program in the project's folder, without the machine's settings of git.
func (p project) run(program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = string(p)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(string(p)), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@localhost", "GIT_COMMITTER_NAME=test",
		"GIT_COMMITTER_EMAIL=test@localhost")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p project) git(t *testing.T, args ...string) {
	t.Helper()
	if out, err := p.run("git", args...); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// `make tag` tags the newest version of CHANGELOG.md with its text, if nothing is in the way.
func TestTag(t *testing.T) {
	tag := func(p project, want string) {
		t.Helper()
		got, err := p.run("bash", ".ci/tag")
		if (err == nil) != strings.HasPrefix(want, "tagged ") || !strings.Contains(got, want) {
			t.Errorf("%q, %v, want %s", got, err, want)
		}
	}
	old := newProject(t, "2026-02-01")
	old.git(t, "init", "-q")
	tag(old, "CHANGELOG.md has the date 2026-02-01 for v0.2.0")

	p := newProject(t, time.Now().Format(time.DateOnly))
	p.git(t, "init", "-q")
	tag(p, "some files are not committed")
	p.git(t, "add", ".")
	p.git(t, "commit", "-q", "-m", "release v0.2.0")
	tag(p, "tagged ")
	message, err := p.run("git", "tag", "--list", "--format=%(contents)", "v0.2.0")
	if want := "### Added\n\n- News."; err != nil || strings.TrimSpace(message) != want {
		t.Errorf("the message is %q, %v, want %q", message, err, want)
	}
	tag(p, "v0.2.0 exists")
}

// The version is that of CHANGELOG.md's newest heading: alone on its tag, with the commits since on later ones, and
// with the commit where there is no tag.
func TestVersion(t *testing.T) {
	p := newProject(t, "2026-02-01")
	expect := func(when, want string) {
		t.Helper()
		got, err := p.run("bash", ".ci/version")
		if err != nil || !regexp.MustCompile("^"+want+"\n$").MatchString(got) {
			t.Errorf("%s: %q, %v, want %s", when, got, err, want)
		}
	}
	git := func(args ...string) { t.Helper(); p.git(t, args...) }
	expect("without git", `v0\.2\.0`)
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	git("tag", "-a", "-m", "one", "v0.1.0")
	expect("before the tag", `v0\.2\.0-g[0-9a-f]{12}`)
	git("tag", "-a", "-m", "two", "v0.2.0")
	expect("on the tag", `v0\.2\.0`)
	git("commit", "-q", "--allow-empty", "-m", "two")
	expect("after the tag", `v0\.2\.0-1-g[0-9a-f]{12}`)
	p.write(t, "CHANGELOG.md", "## v0.2.0 - 2026-02-01\n")
	expect("with changes", `v0\.2\.0-1-g[0-9a-f]{12}-dirty`)
}

func TestFormsOfVersions(t *testing.T) {
	for _, tc := range []struct{ version, deb, pip string }{
		{"v0.1.0", "0.1.0", "0.1.0"},
		{"v0.1.0-dirty", "0.1.0+dirty", "0.1.0+dirty"},
		{"v0.1.0-g0123456789ab", "0.1.0+g0123456789ab", "0.1.0+g0123456789ab"},
		{"v0.1.0-12-g0123456789ab", "0.1.0+12+g0123456789ab", "0.1.0.post12+g0123456789ab"},
		{"v0.1.0-12-g0123456789ab-dirty", "0.1.0+12+g0123456789ab+dirty", "0.1.0.post12+g0123456789ab.dirty"},
	} {
		for form, want := range map[string]string{"deb": tc.deb, "pip": tc.pip} {
			got, err := exec.Command("../../.ci/version", form, tc.version).CombinedOutput()
			if err != nil || string(got) != want+"\n" {
				t.Errorf("%s of %s: %q, %v, want %s", form, tc.version, got, err, want)
			}
		}
	}
}
