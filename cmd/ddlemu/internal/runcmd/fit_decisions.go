// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// decide returns NCCL's decisions on the rows of a table: those in the folder, or else it asks NCCL and keeps them
// there. Without a folder it asks.
func decide(ctx context.Context, folder, table string, e emulate.Options) (*emulate.Decided, error) {
	if folder == "" {
		return emulate.Decide(ctx, e)
	}
	file := filepath.Join(folder, filepath.Base(table)+".decided")
	d, err := readDecided(file)
	if err == nil {
		err = d.Check(&e)
	}
	switch {
	case err == nil:
		return d, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, cli.BadInput("--decisions: %s: %w: remove it", file, err)
	}
	if d, err = emulate.Decide(ctx, e); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return d, cli.WriteNamed("--decisions", file, false, d.Write)
}

func readDecided(file string) (*emulate.Decided, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return emulate.ReadDecided(f)
}
