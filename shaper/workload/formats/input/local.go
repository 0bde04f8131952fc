// SPDX-License-Identifier: Apache-2.0

package input

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxLocal is the maximum number of bytes of a file that is unpacked to disk.
const maxLocal = 16 << 30

// Local returns the path of a file on disk with the unpacked content, for readers that need more than one pass over
// it. It is the path of the file itself if it is not packed, else the path of a temporary file of at most 16 GiB, which
// done removes.
func (f File) Local() (path string, done func(), err error) {
	r, err := f.Open()
	if err != nil {
		return "", nil, err
	}
	defer r.Close()
	if info, err := os.Stat(f.path); f.path != "" && err == nil && info.Mode().IsRegular() && !r.packed {
		path, err := filepath.Abs(f.path)
		return path, func() {}, err
	}
	out, err := os.CreateTemp("", "ddlemu-*")
	if err != nil {
		return "", nil, err
	}
	done = func() { os.Remove(out.Name()) }
	n, err := io.Copy(out, io.LimitReader(r, maxLocal+1))
	if n > maxLocal {
		err = fmt.Errorf("it has more than %d GiB when it is unpacked", maxLocal>>30)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		done()
		return "", nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return out.Name(), done, nil
}
