// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strings"
)

// ErrUnnamed is in the error of Load if neither a profile nor a file is given.
var ErrUnnamed = errors.New("no fabric is named")

// Variables that name the fabric if no flag does.
const (
	ProfileEnv = "DDLEMU_PROFILE"
	FileEnv    = "DDLEMU_FILE"
)

// maxFile is the most bytes a fabric file may have.
const maxFile = 1 << 20

// Source names what to load. With the zero value everything comes from the environment.
type Source struct {
	// Profile names a built-in profile, or a file if it has a slash or ends in
	// .yaml or .yml. File names a file. At most one of them is given; if neither
	// is, the variables ProfileEnv and FileEnv count.
	Profile string
	File    string

	// Text is what File would hold; nil = Load reads the file.
	Text []byte

	// Default is the profile to use if nothing names one. Optional: without it
	// that is an error.
	Default string

	// Setting returns the text that the user gave for a setting, and where: the flag or
	// the variable. Both are "" for a setting that was not given. nil reads the variables
	// alone. Package flags has one for commands.
	Setting func(s *Setting) (text, where string)

	// Sets are keys of a fabric file that are no settings, and their values. They change the profile or file.
	Sets []Set

	// Origins, if it is not nil, gets for each field that the file, a variable or a flag gives where that is, such as
	// "f.yaml:2" or "--nodes". Fields of a profile are not in it.
	Origins map[string]string

	// Unset, if it is not nil, gets the fabric as the profile or the file has it, without the settings. It is not
	// checked.
	Unset *Fabric

	// Getenv reads a variable; nil is os.Getenv. In a library that is loaded into another
	// program, os.Getenv does not see variables that the program has set since its start.
	Getenv func(string) string
}

// Load reads the fabric that src names, a profile or a file, and applies the settings
// to it. The result is valid. Each error that the user can correct is an *Error.
func Load(src Source) (*Fabric, error) {
	if src.Getenv == nil {
		src.Getenv = os.Getenv
	}
	f, origin, err := src.read()
	if err != nil {
		return nil, err
	}
	if src.Unset != nil {
		*src.Unset = *f
	}
	if err := applySets(f, origin, src.Sets); err != nil {
		return nil, err
	}
	if src.Setting == nil {
		src.Setting = src.variable
	}
	for i := range settings {
		s := &settings[i]
		text, where := src.Setting(s)
		if where == "" {
			continue
		}
		if err := s.apply(f, text); err != nil {
			return nil, &Error{Where: where, Err: err}
		}
		origin[s.Field] = where
	}
	// Origins are by the indices of the overrides, so none may be removed before.
	if err := origin.place(f.validate()); err != nil {
		return nil, err
	}
	f.prune()
	if src.Origins != nil {
		maps.Copy(src.Origins, origin)
		delete(src.Origins, "") // of all other fields
	}
	return f, nil
}

// read loads the fabric without the settings.
func (src *Source) read() (_ *Fabric, _ origins, err error) {
	profile, file := src.Profile, src.File
	if profile == "" && file == "" {
		profile, file = src.Getenv(ProfileEnv), src.Getenv(FileEnv)
	}
	if profile != "" && file != "" {
		return nil, nil,
			&Error{
				Err: fmt.Errorf(
					"both the profile %s and the file %s are named: name one, the file may have the profile as its base", profile, file)}
	}
	if profile == "" && file == "" {
		profile = src.Default
	}
	if profile == "" && file == "" {
		return nil, nil,
			&Error{Err: fmt.Errorf("%w: give --profile with one of %s, or a file", ErrUnnamed,
				strings.Join(AllProfileNames(), ", "))}
	}
	if isPath(profile) {
		file = profile
	}
	if file == "" {
		f, err := Profile(profile)
		return f, origins{"": "profile " + profile}, err
	}
	data := src.Text
	if data == nil {
		if data, err = readFile(file, "fabric file", "name a file, or a profile with --profile"); err != nil {
			return nil, nil, &Error{Err: err}
		}
	}
	return decode(file, data)
}

// readFile reads the file called name, which is a what. instead says what to give if it does not exist.
func readFile(name, what, instead string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s %s does not exist: %s", what, name, instead)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, fmt.Errorf("%s %s is a folder: name a file in it", what, name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s %s is larger than %d bytes: is it a %s?", what, name, maxFile, what)
	}
	return data, nil
}

// variable is Source.Setting for the environment alone.
func (src *Source) variable(s *Setting) (text, where string) {
	if s.Env == "" {
		return "", ""
	}
	if text = src.Getenv(s.Env); text != "" {
		where = s.Env
	}
	return text, where
}
