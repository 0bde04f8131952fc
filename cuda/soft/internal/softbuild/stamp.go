// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// fingerprint identifies what something is made from: the contents of files, and words such as compiler flags.
// A file's name counts, its folder does not.
func fingerprint(files []string, words ...string) (string, error) {
	h := sha256.New()
	for _, word := range words {
		fmt.Fprintf(h, "%d:%s", len(word), word)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read source: %w", err)
		}
		fmt.Fprintf(h, "%s:%d:", filepath.Base(file), len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// stamp is the file that remembers the fingerprint a product was made from.
func stamp(product string) string {
	return filepath.Join(filepath.Dir(product), "."+filepath.Base(product)+".stamp")
}

// fresh tells whether a product exists and was made from this fingerprint.
func fresh(product, print string) bool {
	if _, err := os.Stat(product); err != nil {
		return false
	}
	made, err := os.ReadFile(stamp(product))
	return err == nil && string(made) == print
}

// produce makes a product in a temporary file beside it and moves it into place, so that an interrupted run leaves
// the old one or none. It does nothing if the product is fresh.
func produce(product, print string, make func(temporary string) error) error {
	if fresh(product, print) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(product), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	// The stamp goes first: without it, whatever stands there is made again.
	if err := os.Remove(stamp(product)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove stamp: %w", err)
	}
	temporary := product + ".new"
	defer os.Remove(temporary)
	if err := make(temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, product); err != nil {
		return fmt.Errorf("move into place: %w", err)
	}
	return replace(stamp(product), []byte(print))
}

// replace writes a small file whole or not at all, and leaves it alone if it already holds data.
func replace(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("move into place: %w", err)
	}
	return nil
}

// symlink makes a symbolic link, replacing what stands there.
func symlink(target, path string) error {
	if now, err := os.Readlink(path); err == nil && now == target {
		return nil
	}
	_ = os.Remove(path + ".new")
	if err := os.Symlink(target, path+".new"); err != nil {
		return fmt.Errorf("make link: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("move into place: %w", err)
	}
	return nil
}

// sources lists the files with one of the endings directly in the folders, in a fixed order. Tests (*_test) and what
// only they need (fake_*) are left out.
func sources(endings []string, folders ...string) ([]string, error) {
	var out []string
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("list sources: %w", err)
		}
		for _, e := range entries {
			ending := filepath.Ext(e.Name())
			isTest := strings.HasSuffix(strings.TrimSuffix(e.Name(), ending), "_test") || strings.HasPrefix(e.Name(), "fake_")
			for _, want := range endings {
				if ending == want && !isTest {
					out = append(out, filepath.Join(folder, e.Name()))
				}
			}
		}
	}
	return out, nil
}
