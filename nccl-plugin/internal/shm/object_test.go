// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without a ledger the path of a message has one comparison for it and neither call nor store: all that writes the
// ledger is in the object's section of code that is rarely run, with the jumps to it.
func TestLedgerIsOffThePath(t *testing.T) {
	object := filepath.Join(t.TempDir(), "conn.o")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O2", "-fPIC", "-c", "conn.c", "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	code := func(section string) string {
		out, err := exec.Command("objdump", "--disassemble", "--reloc", "--section", section, object).CombinedOutput()
		if err != nil {
			t.Fatalf("objdump: %v\n%s", err, out)
		}
		return string(out)
	}
	path, rare := code(".text"), code(".text.unlikely")
	for _, entry := range []string{"<sender_isend>:", "<sender_test>:", "<receiver_irecv>:", "<receiver_test>:"} {
		if !strings.Contains(path, entry) {
			t.Errorf("%s is not in the path's section", entry)
		}
	}
	for _, name := range []string{"write_call", "write_post", "write_visible", "write_return", "ddlemu_calls"} {
		if strings.Contains(path, name) {
			t.Errorf("%s is in the path's section", name)
		}
		if !strings.Contains(rare, name) {
			t.Errorf("%s is not in the section for code that is rarely run", name)
		}
	}
}
