// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
)

var includeLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]`)

// includes finds the project's headers that a source includes, directly or indirectly. Headers that are neither in the
// folder of the including file nor in the given folders are the system's and are ignored. Safe for concurrent use.
type includes struct {
	mu     sync.Mutex
	direct map[string][]string // file and folders -> headers
}

// closure returns the source and all its headers, sorted. It ignores conditions (#if): they can only add headers that
// are not used.
func (n *includes) closure(source string, folders []string) ([]string, error) {
	seen := map[string]bool{}
	todo := []string{filepath.Clean(source)}
	for len(todo) > 0 {
		file := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[file] {
			continue
		}
		seen[file] = true
		found, err := n.directHeaders(file, folders)
		if err != nil {
			return nil, err
		}
		todo = append(todo, found...)
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// directHeaders returns the headers that a file includes directly.
func (n *includes) directHeaders(file string, folders []string) ([]string, error) {
	key := fmt.Sprint(file, folders)
	n.mu.Lock()
	defer n.mu.Unlock()
	if found, ok := n.direct[key]; ok {
		return found, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read source: %w", err)
	}
	var found []string
	for _, match := range includeLine.FindAllSubmatch(data, -1) {
		for _, folder := range append([]string{filepath.Dir(file)}, folders...) {
			header := filepath.Join(folder, string(match[1]))
			_, err := os.Stat(header)
			if err == nil {
				found = append(found, header)
				break
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("look for header: %w", err)
			}
		}
	}
	n.direct[key] = found
	return found, nil
}
