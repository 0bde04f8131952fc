// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// FileLetter is the letter of --file in every command.
	FileLetter = "F"
	// OtherFileLetter is accepted too where it has no other meaning. With tables of sizes it is nccl-tests' factor.
	OtherFileLetter = "f"
)

// AcceptOtherLetter gives cmd and the commands below it another letter for --file if they have the flag and the
// letter is free. The help does not show it.
func AcceptOtherLetter(cmd *cobra.Command) {
	if fs := cmd.Flags(); fs.Lookup("file") != nil && fs.ShorthandLookup(OtherFileLetter) == nil {
		OtherLetter(fs, "file", OtherFileLetter)
	}
	for _, c := range cmd.Commands() {
		AcceptOtherLetter(c)
	}
}

// OtherLetter makes fs accept a letter of another tool for the flag called name. The help does not show it.
func OtherLetter(fs *pflag.FlagSet, name, letter string) {
	fs.VarP(&otherFlag{fs, name}, letter, letter, "the same as --"+name)
	fs.Lookup(letter).Hidden = true
}

// otherFlag is a flag that sets another one.
type otherFlag struct {
	flags *pflag.FlagSet
	name  string
}

func (o *otherFlag) String() string { return "" }
func (o *otherFlag) Type() string   { return "string" }

// Set sets the other flag.
func (o *otherFlag) Set(text string) error {
	err := o.flags.Set(o.name, text)
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return invalid.Unwrap() // the caller names the flag that the user gave
	}
	return err
}
