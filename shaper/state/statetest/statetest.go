// SPDX-License-Identifier: Apache-2.0

// Package statetest gives tests a fabric that is up, in a temporary folder.
package statetest

import (
	"os"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// New brings up fab under the given name until the end of the test.
func New(t testing.TB, fab *fabric.Fabric, name string) *state.File {
	t.Helper()
	spec, err := live.Spec(fab, name)
	if err != nil {
		t.Fatal(err)
	}
	return Of(t, spec)
}

// Of brings up the fabric that spec describes until the end of the test.
func Of(t testing.TB, spec state.Spec) *state.File {
	t.Helper()
	path, err := os.MkdirTemp("", "ddlemu-test-") // t.TempDir does not have mode 0700
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(path) })
	dir, err := state.OpenDir(path, os.Getuid(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	file, err := dir.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}
