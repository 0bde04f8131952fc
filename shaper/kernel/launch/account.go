// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// Account is a user of this host.
type Account struct {
	Name     string // the UID in decimal if the user has no entry in the user database
	UID, GID int
	Groups   []int  // all group IDs, GID included
	Home     string // "/" if the entry names none
	Shell    string
}

// passwdFile lists the login shells.
const passwdFile = "/etc/passwd"

// defaultShell is what login(1) starts for a user without a shell.
const defaultShell = "/bin/sh"

// AccountByID returns the user with number uid. A user without an entry in the user database is no error: containers
// run processes under arbitrary numbers.
func AccountByID(uid int) (Account, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if _, ok := errors.AsType[user.UnknownUserIdError](err); ok {
		a := Account{Name: strconv.Itoa(uid), UID: uid, GID: uid, Home: "/", Shell: defaultShell}
		if uid == os.Getuid() {
			a.GID = os.Getgid()
		}
		a.Groups = []int{a.GID}
		return a, nil
	}
	if err != nil {
		return Account{}, fmt.Errorf("find user %d: %w", uid, err)
	}
	return newAccount(u)
}

// AccountByName returns the user called name. If there is no such user, the error wraps user.UnknownUserError.
func AccountByName(name string) (Account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return Account{}, err
	}
	return newAccount(u)
}

func newAccount(u *user.User) (Account, error) {
	a := Account{Name: u.Username, Home: u.HomeDir, Shell: defaultShell}
	var err error
	if a.UID, err = strconv.Atoi(u.Uid); err == nil {
		a.GID, err = strconv.Atoi(u.Gid)
	}
	if err != nil {
		return Account{}, fmt.Errorf("parse the IDs of user %s: %w", u.Username, err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return Account{}, fmt.Errorf("find the groups of user %s: %w", u.Username, err)
	}
	for _, text := range groups {
		gid, err := strconv.Atoi(text)
		if err != nil {
			return Account{}, fmt.Errorf("parse a group ID of user %s: %w", u.Username, err)
		}
		a.Groups = append(a.Groups, gid)
	}
	if a.Home == "" {
		a.Home = "/"
	}
	if shell := shellOf(u.Username); shell != "" {
		a.Shell = shell
	}
	return a, nil
}

// shellOf returns the shell in the user's line of passwdFile. It returns "" if there is no such line: the user may
// come from another database, such as LDAP.
func shellOf(name string) string {
	f, err := os.Open(passwdFile)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); len(fields) == 7 && fields[0] == name {
			return fields[6]
		}
	}
	return ""
}
