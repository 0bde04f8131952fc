// SPDX-License-Identifier: Apache-2.0

// Package flags lets the flags of a command, and the environment, change a fabric.
package flags

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/ddlemu/ddlemu/configs"
)

// AddFabric adds the flags that describe a fabric, except flags that fs has already: --set, and one of each daily
// setting. The flags of the other settings are hidden. Only --set sets them, and [pflag.FlagSet.Changed] tells of them.
func AddFabric(fs *pflag.FlagSet) {
	given := &sets{fs: fs}
	for _, s := range configs.Settings() {
		if fs.Lookup(s.Flag) == nil {
			f := fs.VarPF(&value{check: s.Check, only: !s.Daily, key: s.Field, given: given}, s.Flag, "", s.Usage)
			f.NoOptDefVal, f.Hidden = s.Bare, !s.Daily
		}
	}
	fs.Var(given, configs.SetFlag,
		"a `key` of a fabric file and its value, such as link.jitter=2us, or @FILE with keys; may be repeated (keys: "+
			"docs/fabric.md)")
}

// sets are the values of --set.
type sets struct {
	fs      *pflag.FlagSet
	texts   []string
	others  []configs.Set // keys that are no settings
	setting bool          // one of them sets the flag of a setting
}

func (v *sets) String() string { return strings.Join(v.texts, " ") }

func (v *sets) Type() string { return "key=value" }

// Set sets the flag of the key's setting, and keeps a key that is no setting.
func (v *sets) Set(text string) error {
	set, err := configs.ParseSet(text)
	if err != nil {
		return err
	}
	v.texts = append(v.texts, text)
	s := configs.SettingOf(set.Key)
	if s == nil {
		v.others = append(v.others, set)
		return nil
	}
	v.setting = true
	defer func() { v.setting = false }()
	if err := v.fs.Set(s.Flag, set.Value); err != nil {
		if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = invalid.Unwrap()
		}
		return fmt.Errorf("%s: %w", set.Key, err)
	}
	return nil
}

// GetSlice returns all texts. It makes v a cobra.SliceValue, which may be given several times.
func (v *sets) GetSlice() []string { return v.texts }

// AddShape adds the flags that `ddlemu shape` has, except those that fs has already.
func AddShape(fs *pflag.FlagSet) {
	for _, m := range configs.LinkParams() {
		if m.Flag != "" && fs.Lookup(m.Flag) == nil {
			fs.Var(&value{check: func(text string) error { return m.Set(&configs.LinkPatch{}, text) }}, m.Flag, m.Usage)
		}
	}
}

// Set sets a flag of a fabric as --set does, whether or not users can give it.
func Set(fs *pflag.FlagSet, name, text string) error {
	if v := setsOf(fs); v != nil {
		v.setting = true
		defer func() { v.setting = false }()
	}
	return fs.Set(name, text)
}

// Copy gives the flags that the user gave in from to the flags of to that have the same name, without those that leave
// names.
func Copy(to, from *pflag.FlagSet, leave func(name string) bool) (err error) {
	from.Visit(func(f *pflag.Flag) {
		switch {
		case to.Lookup(f.Name) == nil || leave(f.Name):
		case f.Name == configs.SetFlag: // the flags of its settings are given too
			setsOf(to).others = setsOf(from).others
		default:
			err = errors.Join(err, Set(to, f.Name, f.Value.String()))
		}
	})
	return err
}

// Others are the keys that --set gave and that are no settings.
func Others(fs *pflag.FlagSet) []configs.Set {
	if v := setsOf(fs); v != nil {
		return v.others
	}
	return nil
}

// setsOf is the value of --set, nil if fs has no such flag.
func setsOf(fs *pflag.FlagSet) *sets {
	if f := fs.Lookup(configs.SetFlag); f != nil {
		return f.Value.(*sets)
	}
	return nil
}

// Load is configs.Load with the flags in fs that the user gave over the
// environment. Flags of a setting's name that others added are read as well.
func Load(src configs.Source, fs *pflag.FlagSet) (*configs.Fabric, error) {
	if src.Getenv == nil {
		src.Getenv = os.Getenv
	}
	v, err := layers(fs, src.Getenv)
	if err != nil {
		return nil, err
	}
	src.Sets = slices.Concat(src.Sets, Others(fs))
	src.Setting = func(s *configs.Setting) (text, where string) {
		switch {
		case !v.IsSet(s.Flag):
			return "", ""
		case fs.Changed(s.Flag):
			where = s.Spelling()
		default:
			where = s.Env
		}
		return v.GetString(s.Flag), where
	}
	return configs.Load(src)
}

// layers is the environment and, over it, the flags that were given. The
// environment is added by hand, because viper would read the process's own.
func layers(fs *pflag.FlagSet, getenv func(string) string) (*viper.Viper, error) {
	v := viper.NewWithOptions(viper.KeyDelimiter("\x00"))
	env := map[string]any{}
	for _, s := range configs.Settings() {
		if s.Env != "" && getenv(s.Env) != "" {
			env[s.Flag] = getenv(s.Env)
		}
		if !fs.Changed(s.Flag) {
			continue
		}
		if err := v.BindPFlag(s.Flag, fs.Lookup(s.Flag)); err != nil {
			return nil, fmt.Errorf("bind flag --%s: %w", s.Flag, err)
		}
	}
	if err := v.MergeConfigMap(env); err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	return v, nil
}

// Links is the change to links that the flags of AddShape in fs ask for.
// The error is a *configs.Error that names the flag.
func Links(fs *pflag.FlagSet) (configs.LinkPatch, error) {
	var p configs.LinkPatch
	for _, m := range configs.LinkParams() {
		if !fs.Changed(m.Flag) {
			continue
		}
		if err := m.Set(&p, fs.Lookup(m.Flag).Value.String()); err != nil {
			return configs.LinkPatch{}, &configs.Error{Where: "--" + m.Flag, Err: err}
		}
	}
	l := exampleLink(&p)
	if err := l.Validate(); err != nil {
		return configs.LinkPatch{}, flagError(err)
	}
	return p, nil
}

// exampleLink is a link that is valid with p, if any is: whoever applies p checks it
// against the link itself.
func exampleLink(p *configs.LinkPatch) configs.Link {
	l := configs.Default().Link
	l.Bandwidth, l.Queue.Bytes = configs.MinBandwidth, 0
	p.Apply(&l)
	if p.MTU == nil {
		l.MTU = max(configs.MinMTU, l.Header+1)
	}
	return l
}

// flagError puts the flag in front of an error about a field of a link.
func flagError(err error) error {
	var e *configs.Error
	if !errors.As(err, &e) {
		return err
	}
	for _, m := range configs.LinkParams() {
		if m.Key == e.Field {
			return &configs.Error{Where: "--" + m.Flag, Err: e.Err}
		}
	}
	return err
}

// value keeps the text of a flag, which it has checked.
type value struct {
	check func(text string) error
	text  string

	only  bool // only --set may set it
	key   string
	given *sets
}

func (v *value) String() string { return v.text }

// Type must not be the name of a type that viper converts by itself.
func (v *value) Type() string { return "setting" }

func (v *value) Set(text string) error {
	if v.only && !v.given.setting {
		return fmt.Errorf("it has no flag of its own: give --%s %s=%s", configs.SetFlag, v.key, text)
	}
	if err := v.check(text); err != nil {
		return err
	}
	v.text = text
	return nil
}
