// SPDX-License-Identifier: Apache-2.0

package softbuild

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"sync"
)

var includeLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]`)

// includes finds the headers of ours that a source includes, directly or not. What is found neither beside the
// including file nor in folders belongs to the system and doesn't count. Safe for concurrent use.
type includes struct {
	mu     sync.Mutex
	direct map[string][]string // file and folders -> headers
}

// closure returns the source and all its headers, sorted. It takes no notice of conditions, which can only add
// headers that don't matter.
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
		found, err := n.of(file, folders)
		if err != nil {
			return nil, err
		}
		todo = append(todo, found...)
	}
	var out []string
	for file := range seen {
		out = append(out, file)
	}
	sort.Strings(out)
	return out, nil
}

func (n *includes) of(file string, folders []string) ([]string, error) {
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
