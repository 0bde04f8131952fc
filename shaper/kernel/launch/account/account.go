// SPDX-License-Identifier: Apache-2.0

// Package account says who a user is to whom a program is to belong.
package account

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
	Name     string // the number if it has none
	UID, GID int
	Groups   []int  // all of them, GID included
	Home     string // "/" if it has none
	Shell    string
}

// passwd has the users' shells.
const passwd = "/etc/passwd"

// defaultShell is login(1)'s for a user without one.
const defaultShell = "/bin/sh"

// Of is the user number uid, who need not have an entry: containers run as any
// number.
func Of(uid int) (Account, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	var unknown user.UnknownUserIdError
	if errors.As(err, &unknown) {
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
	return of(u)
}

// Named is the user called name. The error wraps user.UnknownUserError if there is
// none.
func Named(name string) (Account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return Account{}, err
	}
	return of(u)
}

func of(u *user.User) (Account, error) {
	a := Account{Name: u.Username, Home: u.HomeDir, Shell: defaultShell}
	var err error
	if a.UID, err = strconv.Atoi(u.Uid); err == nil {
		a.GID, err = strconv.Atoi(u.Gid)
	}
	if err != nil {
		return Account{}, fmt.Errorf("number of user %s: %w", u.Username, err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return Account{}, fmt.Errorf("find the groups of user %s: %w", u.Username, err)
	}
	for _, text := range groups {
		gid, err := strconv.Atoi(text)
		if err != nil {
			return Account{}, fmt.Errorf("number of a group of user %s: %w", u.Username, err)
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

// shellOf is the shell in the user's line of passwd, "" if there is none, as for
// users from elsewhere.
func shellOf(name string) string {
	f, err := os.Open(passwd)
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
