// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// errTwice is a flag that was given twice with different values.
var errTwice = errors.New("given twice")

// OnceOnly makes the flags of cmd and of the commands below it refuse a second value that differs from the first: it
// would replace the first without a word. Flags that collect values, and switches, may be given several times.
func OnceOnly(cmd *cobra.Command) {
	refuse := func(f *pflag.Flag) {
		_, collects := f.Value.(cobra.SliceValue)
		if _, is := f.Value.(*OnceValue); is || collects || f.NoOptDefVal != "" {
			return
		}
		if f.DefValue == "0s" {
			// the help prints no default that is zero, but knows 0s only of values that are not wrapped
			f.DefValue = "0"
		}
		f.Value = &OnceValue{Value: f.Value}
	}
	cmd.PersistentFlags().VisitAll(refuse)
	cmd.Flags().VisitAll(refuse)
	for _, c := range cmd.Commands() {
		OnceOnly(c)
	}
}

// OnceValue is the value of a flag that has one value.
type OnceValue struct {
	pflag.Value
	first string // as given
	given bool
}

// Set sets the value, unless another one was set before.
func (v *OnceValue) Set(text string) error {
	if v.given && text != v.first {
		return fmt.Errorf("%w, as %s and as %s: give one of them", errTwice, v.first, text)
	}
	v.given, v.first = true, text
	return v.Value.Set(text)
}

// ValueOf is the value of a flag as it was added.
func ValueOf(f *pflag.Flag) pflag.Value {
	if once, ok := f.Value.(*OnceValue); ok {
		return once.Value
	}
	return f.Value
}

// Value is the value of a flag, which parse reads and format writes. kind is what the help calls it.
func Value[T any](to *T, kind string, parse func(text string) (T, error), format func(T) string) pflag.Value {
	return &parsed[T]{to, kind, parse, format}
}

type parsed[T any] struct {
	to     *T
	kind   string
	parse  func(text string) (T, error)
	format func(T) string
}

func (v *parsed[T]) String() string { return v.format(*v.to) }
func (v *parsed[T]) Type() string   { return v.kind }

func (v *parsed[T]) Set(text string) error {
	value, err := v.parse(text)
	if err == nil {
		*v.to = value
	}
	return err
}

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

// completions are the values of flags that a shell completes, by the flag's name. Flags of one name mean the same
// everywhere.
var completions = map[string]func() []string{
	"profile": configs.AllProfileNames,
	"gpu":     configs.GPUNames,
	"nccl":    func() []string { return locate.SoftVersions },
	"clock":   func() []string { return []string{"virtual", "real"} },
	"set":     configs.Keys,
}

// CompleteFlags lets shells complete the values of flags of cmd and of all commands below it.
func CompleteFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values := completions[f.Name]
		if _, set := cmd.GetFlagCompletionFunc(f.Name); values == nil || set {
			return
		}
		// The error is that a flag does not exist or has a function already.
		_ = cmd.RegisterFlagCompletionFunc(f.Name,
			func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				if f.Name == configs.SetFlag { // a "=" and the value follow
					return values(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
				}
				return values(), cobra.ShellCompDirectiveNoFileComp
			})
	})
	for _, c := range cmd.Commands() {
		CompleteFlags(c)
	}
}

// Size is the value of a flag for a size in bytes, in nccl-tests' way of writing.
func Size(to *int64) pflag.Value {
	return Value(to, "size", bench.ParseSize, func(size int64) string { return units.Size(size).String() })
}
