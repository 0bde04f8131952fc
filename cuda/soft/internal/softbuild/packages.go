// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/cuda/soft/setup/debian"
)

const packageName = "libnccl-dev"

// baseLine is the release line that is the default: Debian 13's.
const baseLine = "2.22"

// want is one of the NCCLs to have.
type want struct {
	what   string
	keep   func(Version) bool
	suites []string // where to look, in this order, until one has a version that the executor knows
}

// wants lists the NCCLs to have: Debian 13's, and the newest that the executor knows. Sid moves on, so that one may
// come from another suite.
var wants = []want{
	{"NCCL " + baseLine, func(v Version) bool { return v.Line() == baseLine }, []string{"trixie"}},
	{"a newer NCCL", func(v Version) bool { return v.Line() != baseLine }, []string{"sid", "testing"}},
}

// askAgain is how long an answer "nothing that the executor knows" is believed before the archive is asked again.
const askAgain = 24 * time.Hour

// choice is what became of a want: a package that lies unpacked in the cache, or none because all were refused.
type choice struct {
	version Version // "" if there is none
	source  string
	refused []Refusal
}

// choose settles a want from the cache if it can, else from the archive.
func (b *builder) choose(w want) (choice, error) {
	cached, err := b.cachedPackages()
	if err != nil {
		return choice{}, err
	}
	if best, _, ok := newest(cached, w.keep, b.knows); ok && !b.Refresh {
		return choice{version: best.Version, source: best.Source}, b.unpackFile(best)
	}
	var note refusals
	if b.readNote(w, &note) {
		return choice{refused: note.Refused}, nil
	}
	refused, err := b.fetch(w)
	if cachedNow, listErr := b.cachedPackages(); listErr == nil {
		cached = cachedNow
	}
	best, _, ok := newest(cached, w.keep, b.knows)
	if ok {
		// A package in the cache does as well as a download that was not to be had.
		if err != nil {
			b.con.say("no download, using the cache: %v", err)
		}
		return choice{version: best.Version, source: best.Source, refused: refused}, b.unpackFile(best)
	}
	if err != nil {
		return choice{refused: refused}, fmt.Errorf("%w; with network access run this again, or put %s_VERSION_ARCH.deb into %s", err, packageName, b.cache())
	}
	return choice{refused: refused}, b.writeNote(w, refusals{Refused: refused})
}

// fetch asks the want's suites until one has a version that the executor knows, and unpacks that. It returns what was
// refused on the way.
func (b *builder) fetch(w want) (refused []Refusal, err error) {
	mirror, err := debian.Mirror()
	if err != nil {
		return nil, err
	}
	for _, suite := range w.suites {
		dir, err := filepath.Abs(filepath.Join(b.cache(), "apt", suite))
		if err != nil {
			return refused, fmt.Errorf("find folder: %w", err)
		}
		a := debian.Archive{Package: packageName, Suite: suite, Component: "contrib", Mirror: mirror, Dir: dir}
		b.con.say("asking Debian's suite %s for %s", suite, packageName)
		versions, err := a.Versions(b.ctx)
		if err != nil {
			return refused, err
		}
		var all []Candidate
		for _, v := range versions {
			all = append(all, Candidate{Version: Version(v), Source: suite})
		}
		best, no, ok := newest(all, w.keep, b.knows)
		refused = append(refused, no...)
		for _, r := range no {
			b.con.say("NCCL %s of %s is not used: %s", r.Version, r.Source, r.Reason)
		}
		if ok {
			return refused, b.download(a, best)
		}
	}
	return refused, nil
}

func (b *builder) download(a debian.Archive, c Candidate) error {
	if _, err := os.Stat(b.unpacked(c.Version)); err == nil {
		return nil
	}
	temporary, err := os.MkdirTemp(b.cache(), "download-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	b.con.say("downloading %s %s of %s (about 100 MB)", packageName, c.Version, c.Source)
	advance, done := b.con.bar("downloading", 100)
	deb, err := a.Download(b.ctx, string(c.Version), temporary, func(percent float64) { advance(int(percent)) })
	done()
	if err != nil {
		return err
	}
	return b.unpack(deb, c.Version, c.Source)
}

// cachedPackages lists what is unpacked in the cache, and package files that someone put there.
func (b *builder) cachedPackages() ([]Candidate, error) {
	var out []Candidate
	entries, err := filepath.Glob(filepath.Join(b.cache(), "nccl", "*", "package.json"))
	if err != nil {
		return nil, fmt.Errorf("list cache: %w", err)
	}
	for _, file := range entries {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("list cache: %w", err)
		}
		var p Package
		if err := json.Unmarshal(data, &p); err != nil {
			return nil, fmt.Errorf("read %s: %w; remove its folder", file, err)
		}
		out = append(out, Candidate{Version: Version(p.Package), Source: p.Source})
	}
	files, err := filepath.Glob(filepath.Join(b.cache(), packageName+"_*.deb"))
	if err != nil {
		return nil, fmt.Errorf("list cache: %w", err)
	}
	for _, file := range files {
		out = append(out, Candidate{Version: versionOfFile(file), Source: "file"})
	}
	return out, nil
}

// versionOfFile reads libnccl-dev_2.22.3-1-1_amd64.deb.
func versionOfFile(path string) Version {
	parts := strings.Split(filepath.Base(path), "_")
	if len(parts) < 2 {
		return ""
	}
	return Version(parts[1])
}

func (b *builder) unpackFile(c Candidate) error {
	if _, err := os.Stat(b.unpacked(c.Version)); err == nil {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(b.cache(), fmt.Sprintf("%s_%s_*.deb", packageName, c.Version)))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("find %s %s in the cache", packageName, c.Version), err)
	}
	b.con.say("using %s, which was put there by hand: its signature is not checked", files[0])
	return b.unpack(files[0], c.Version, c.Source)
}

// knows asks the executor whether it knows an NCCL.
func (b *builder) knows(nccl int) bool {
	number := strconv.Itoa(nccl)
	out, err := exec.CommandContext(b.ctx, b.knowsProgram(), number).Output()
	return err == nil && strings.TrimSpace(string(out)) == number
}

// refusals is remembered so that the archive isn't asked in every run.
type refusals struct {
	Refused []Refusal
}

func (b *builder) noteFile(w want) string {
	return filepath.Join(b.cache(), "refused-"+w.suites[0]+".json")
}

// readNote tells whether the archive was asked lately and the executor still knows none of what it had.
func (b *builder) readNote(w want, note *refusals) bool {
	info, err := os.Stat(b.noteFile(w))
	if err != nil || b.Refresh || time.Since(info.ModTime()) > askAgain {
		return false
	}
	data, err := os.ReadFile(b.noteFile(w))
	if err != nil || json.Unmarshal(data, note) != nil {
		return false
	}
	for _, r := range note.Refused {
		if n, err := r.Version.NCCL(); err == nil && b.knows(n) {
			return false
		}
	}
	return true
}

func (b *builder) writeNote(w want, note refusals) error {
	data, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("note refusals: %w", err)
	}
	_ = os.Remove(b.noteFile(w))
	return replace(b.noteFile(w), data)
}
