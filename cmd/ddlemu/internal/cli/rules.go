// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// Rule is a rule between the flags of a command, or for the value of one.
//
// Rules name flags without dashes, several divided by spaces. "via=p2p" is --via with this value, given or not.
// "!model" is the lack of --model, "fabric+" is --fabric given twice, and a name in capitals is the arguments. A flag
// is given if it has a value that is not "" and not false.
type Rule struct {
	names string // all that it names
	check func(c *given) error
}

// given is what the user gave.
type given struct {
	flags *pflag.FlagSet
	args  []string
}

// Ruled is cmd, which has all its flags, with rules, which are checked before it runs.
func Ruled(cmd *cobra.Command, rules ...Rule) *cobra.Command {
	for _, rule := range rules {
		for _, name := range strings.Fields(rule.names) {
			flag, _, _ := strings.Cut(strings.Trim(name, "!+"), "=")
			if strings.ToUpper(flag) != flag && cmd.Flags().Lookup(flag) == nil {
				panic(fmt.Sprintf("%s has a rule for --%s, which it does not have", cmd.Name(), flag))
			}
		}
	}
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		for _, rule := range rules {
			if err := rule.check(&given{cmd.Flags(), args}); err != nil {
				return &InputError{err}
			}
		}
		return nil
	}
	return cmd
}

// Excludes refuses flags with one of others. why is the reason, "" if the names say it.
func Excludes(flags, others, why string) Rule {
	return each(flags, others, func(c *given, flag string) error {
		for _, other := range strings.Fields(others) {
			if other == flag || !c.has(other) {
				continue
			}
			if why != "" {
				return fmt.Errorf("%s and %s: %s: leave out one of them", c.spell(flag), c.spell(other), why)
			}
			return fmt.Errorf("%s and %s exclude each other: leave out one of them", c.spell(flag), c.spell(other))
		}
		return nil
	})
}

// AtMostOne refuses two of flags.
func AtMostOne(flags, why string) Rule { return Excludes(flags, flags, why) }

// Needs refuses flags without one of others. why says what they do with it, "" if the names say it.
func Needs(flags, others, why string) Rule {
	return each(flags, others, func(c *given, flag string) error {
		names, ok := c.any(others)
		switch {
		case ok:
			return nil
		case why == "":
			return fmt.Errorf("%s is for %s: give both, or leave it out", c.spell(flag), names)
		}
		return fmt.Errorf("%s: %s: give %s", c.spell(flag), why, names)
	})
}

// Required refuses a command line with none of flags. why says what is missing.
func Required(flags, why string) Rule {
	return Rule{flags, func(c *given) error {
		names, ok := c.any(flags)
		if ok {
			return nil
		}
		return fmt.Errorf("%s: give %s", why, names)
	}}
}

// Least refuses values below least, which is a number or a time, of flags that are given.
func Least(flags string, least any) Rule {
	return each(flags, "", func(c *given, flag string) error {
		if text := c.value(flag); number(text) < number(fmt.Sprint(least)) {
			return fmt.Errorf("--%s %s: must be at least %v", flag, text, least)
		}
		return nil
	})
}

// Range refuses values below least and above most, which are numbers or times, of flags that are given.
func Range(flags string, least, most any) Rule {
	return each(flags, "", func(c *given, flag string) error {
		text := c.value(flag)
		if v := number(text); v < number(fmt.Sprint(least)) || v > number(fmt.Sprint(most)) {
			return fmt.Errorf("--%s %s: must be %v to %v", flag, text, least, most)
		}
		return nil
	})
}

// number reads a number, a time in seconds, or a size in bytes; a flag has refused any other text.
func number(text string) float64 {
	if d, err := time.ParseDuration(text); err == nil {
		return d.Seconds()
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v
	}
	v, err := bench.ParseSize(text)
	if err != nil {
		panic("a rule for the size of " + text)
	}
	return float64(v)
}

// Among refuses values of flags that are none of these.
func Among(flags string, values ...string) Rule {
	return each(flags, "", func(c *given, flag string) error {
		if text := c.value(flag); !slices.Contains(values, text) {
			return fmt.Errorf("--%s %s: must be %s", flag, text, configs.OrList(values))
		}
		return nil
	})
}

// NewFiles refuses files of flags that cannot be written. A file that exists can, with --force. See [CheckFile].
func NewFiles(flags string) Rule {
	return each(flags, "force", func(c *given, flag string) error {
		return CheckFile(c.spell(flag), c.value(flag), c.has("force"))
	})
}

// each is a rule for each of flags that is given. It names others, too.
func each(flags, others string, rule func(c *given, flag string) error) Rule {
	return Rule{flags + " " + others, func(c *given) error {
		for _, flag := range strings.Fields(flags) {
			if c.has(flag) {
				if err := rule(c, flag); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

func (c *given) value(flag string) string { return c.flags.Lookup(flag).Value.String() }

// has says whether a flag of a rule is given.
func (c *given) has(name string) bool {
	if not, ok := strings.CutPrefix(name, "!"); ok {
		return !c.has(not)
	}
	if strings.ToUpper(name) == name {
		return len(c.args) > 0
	}
	if flag, value, ok := strings.Cut(name, "="); ok {
		return c.value(flag) == value
	}
	if flag, ok := strings.CutSuffix(name, "+"); ok {
		return len(c.flags.Lookup(flag).Value.(pflag.SliceValue).GetSlice()) > 1
	}
	return c.flags.Changed(name) && !slices.Contains([]string{"", "false", "[]"}, c.value(name))
}

// any says whether one of flags is given, and names them all.
func (c *given) any(flags string) (names string, ok bool) {
	var all []string
	for _, flag := range strings.Fields(flags) {
		all = append(all, c.spell(flag))
		ok = ok || c.has(flag)
	}
	return configs.OrList(all), ok
}

// spell is how a user writes a flag of a rule.
func (c *given) spell(name string) string {
	if not, ok := strings.CutPrefix(name, "!"); ok {
		return "without " + c.spell(not)
	}
	if strings.ToUpper(name) == name {
		return name
	}
	if flag, ok := strings.CutSuffix(name, "+"); ok {
		return "a second --" + flag
	}
	return "--" + strings.Replace(name, "=", " ", 1)
}
