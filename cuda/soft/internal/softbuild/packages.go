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

// baseLine is the release line of the default NCCL: the one of Debian 13.
const baseLine = "2.22"

// wantedNCCL describes an NCCL to build.
type wantedNCCL struct {
	what    string // for messages
	matches func(Version) bool
	suites  []string // searched in this order until one has a supported version
}

// wantedNCCLs are Debian 13's NCCL, and the newest one that the executor supports. Sid can have a newer one that it
// does not support; then testing is searched.
var wantedNCCLs = []wantedNCCL{
	{"NCCL " + baseLine, func(v Version) bool { return v.Line() == baseLine }, []string{"trixie"}},
	{"a newer NCCL", func(v Version) bool { return v.Line() != baseLine }, []string{"sid", "testing"}},
}

// retryAfter is the time until the archive is queried again if it had no supported version.
const retryAfter = 24 * time.Hour

// foundPackage is a package in the cache, unpacked, or none because all were refused.
type foundPackage struct {
	wanted  wantedNCCL
	err     error
	version Version // "" if there is none
	source  string
	refused []Refusal
}

// findPackage finds a package in the cache, else in Debian's archive.
func (b *builder) findPackage(w wantedNCCL) (foundPackage, error) {
	cached, err := b.cachedPackages()
	if err != nil {
		return foundPackage{}, err
	}
	if best, _, ok := newest(cached, w.matches, b.supports); ok && !b.Refresh {
		return foundPackage{version: best.Version, source: best.Source}, b.unpackFile(best)
	}
	var stored refusals
	if b.readRefusals(w, &stored) {
		return foundPackage{refused: stored.Refused}, nil
	}
	refused, err := b.fetch(w)
	if cachedNow, listErr := b.cachedPackages(); listErr == nil {
		cached = cachedNow
	}
	best, _, ok := newest(cached, w.matches, b.supports)
	if ok {
		if err != nil {
			b.con.print("the download failed, using the cache: %v", err)
		}
		return foundPackage{version: best.Version, source: best.Source, refused: refused}, b.unpackFile(best)
	}
	if err != nil {
		return foundPackage{
				refused: refused},
			fmt.Errorf("%w; with network access run this again, or put %s_VERSION_ARCH.deb into %s", err, packageName,
				b.cache())
	}
	return foundPackage{refused: refused}, b.writeRefusals(w, refusals{Refused: refused})
}

// fetch searches the suites until one has a supported version, and downloads that. It returns the versions that it
// refused.
func (b *builder) fetch(w wantedNCCL) (refused []Refusal, err error) {
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
		b.con.print("searching Debian's suite %s for %s", suite, packageName)
		versions, err := a.Versions(b.ctx)
		if err != nil {
			return refused, err
		}
		var all []Candidate
		for _, v := range versions {
			all = append(all, Candidate{Version: Version(v), Source: suite})
		}
		best, unsupported, ok := newest(all, w.matches, b.supports)
		refused = append(refused, unsupported...)
		for _, r := range unsupported {
			b.con.print("NCCL %s of %s is not used: %s", r.Version, r.Source, r.Reason)
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
	b.con.print("downloading %s %s of %s (about 100 MB)", packageName, c.Version, c.Source)
	advance, done := b.con.bar("downloading", 100)
	deb, err := a.Download(b.ctx, string(c.Version), temporary, func(percent float64) { advance(int(percent)) })
	done()
	if err != nil {
		return err
	}
	return b.unpack(deb, c.Version, c.Source)
}

// cachedPackages lists the packages in the cache: unpacked ones, and .deb files that a user put there.
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

// versionOfFile returns the version in a file name such as libnccl-dev_2.22.3-1-1_amd64.deb.
func versionOfFile(path string) Version {
	parts := strings.Split(filepath.Base(path), "_")
	if len(parts) < 2 {
		return ""
	}
	return Version(parts[1])
}

// unpackFile unpacks a cached package unless it is unpacked already.
func (b *builder) unpackFile(c Candidate) error {
	if _, err := os.Stat(b.unpacked(c.Version)); err == nil {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(b.cache(), fmt.Sprintf("%s_%s_*.deb", packageName, c.Version)))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("find %s %s in the cache", packageName, c.Version), err)
	}
	b.con.print("using %s without checking its signature, because you put it there", files[0])
	return b.unpack(files[0], c.Version, c.Source)
}

// supports says whether the executor supports a version of NCCL.
func (b *builder) supports(nccl int) bool {
	number := strconv.Itoa(nccl)
	out, err := exec.CommandContext(b.ctx, b.supportsProgram(), number).Output()
	return err == nil && strings.TrimSpace(string(out)) == number
}

// refusals are stored so that not every run queries the archive.
type refusals struct {
	Refused []Refusal
}

func (b *builder) refusalsFile(w wantedNCCL) string {
	return filepath.Join(b.cache(), "refused-"+w.suites[0]+".json")
}

// readRefusals reads the stored refusals. Returns false if they are old or the executor supports one of the versions
// now.
func (b *builder) readRefusals(w wantedNCCL, stored *refusals) bool {
	info, err := os.Stat(b.refusalsFile(w))
	if err != nil || b.Refresh || time.Since(info.ModTime()) > retryAfter {
		return false
	}
	data, err := os.ReadFile(b.refusalsFile(w))
	if err != nil || json.Unmarshal(data, stored) != nil {
		return false
	}
	for _, r := range stored.Refused {
		if n, err := r.Version.NCCL(); err == nil && b.supports(n) {
			return false
		}
	}
	return true
}

func (b *builder) writeRefusals(w wantedNCCL, r refusals) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("store refusals: %w", err)
	}
	_ = os.Remove(b.refusalsFile(w))
	return replace(b.refusalsFile(w), data)
}
