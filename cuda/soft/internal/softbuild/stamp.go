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
	"slices"
)

// fingerprint returns a hash of the inputs of a product: names and contents of files, and words such as compiler flags.
// It does not depend on the files' folders.
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

// stamp returns the name of the file that stores a product's fingerprint.
func stamp(product string) string {
	return filepath.Join(filepath.Dir(product), "."+filepath.Base(product)+".stamp")
}

// upToDate says whether a product exists and has this fingerprint.
func upToDate(product, hash string) bool {
	if _, err := os.Stat(product); err != nil {
		return false
	}
	stored, err := os.ReadFile(stamp(product))
	return err == nil && string(stored) == hash
}

// produce builds a product in a temporary file and renames it. An interrupted run leaves the old product or none. It
// does nothing if the product is up to date.
func produce(product, hash string, build func(temporary string) error) error {
	if upToDate(product, hash) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(product), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	// Remove the stamp first: a product without a stamp is built again.
	if err := os.Remove(stamp(product)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove stamp: %w", err)
	}
	temporary := product + ".new"
	defer os.Remove(temporary)
	if err := build(temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, product); err != nil {
		return fmt.Errorf("move into place: %w", err)
	}
	return replace(stamp(product), []byte(hash))
}

// replace writes a small file atomically. It does nothing if the file already has this content.
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

// symlink creates a symbolic link. It replaces a file of that name.
func symlink(target, path string) error {
	if old, err := os.Readlink(path); err == nil && old == target {
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

// sources lists the files in the folders that have one of the endings, in alphabetical order.
func sources(endings []string, folders ...string) ([]string, error) {
	var out []string
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("list sources: %w", err)
		}
		for _, e := range entries {
			if slices.Contains(endings, filepath.Ext(e.Name())) {
				out = append(out, filepath.Join(folder, e.Name()))
			}
		}
	}
	return out, nil
}
