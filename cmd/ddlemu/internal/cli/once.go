// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
