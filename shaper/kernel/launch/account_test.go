// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"os"
	"os/user"
	"slices"
	"testing"
)

func TestAccount(t *testing.T) {
	root, err := AccountByID(0)
	if err != nil {
		t.Fatal(err)
	}
	if root.UID != 0 || root.GID != 0 || !slices.Contains(root.Groups, 0) || root.Home == "" || root.Shell == "" ||
		root.Name != "root" {
		t.Errorf("got %+v", root)
	}
	if a, err := AccountByName("root"); err != nil || a.Name != root.Name || a.Shell != root.Shell {
		t.Errorf("by name %+v, %v", a, err)
	}
}

// Processes in containers run as users without an entry.
func TestAccountWithoutEntry(t *testing.T) {
	const uid = 3987654
	if _, err := user.LookupId("3987654"); err == nil || uid == os.Getuid() {
		t.Skip("there is a user 3987654")
	}
	a, err := AccountByID(uid)
	if err != nil {
		t.Fatal(err)
	}
	if a.UID != uid || a.GID != uid || a.Home != "/" || a.Shell != defaultShell || a.Name != "3987654" {
		t.Errorf("got %+v", a)
	}
	var unknown user.UnknownUserError
	if _, err := AccountByName("no-such-user"); !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
}
