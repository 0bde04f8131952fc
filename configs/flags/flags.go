// SPDX-License-Identifier: Apache-2.0

// Package flags lets the flags of a command, and the environment, change a fabric.
package flags

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/ddlemu/ddlemu/configs"
)

// AddFabric adds the flags that describe a fabric, except those that fs has already.
func AddFabric(fs *pflag.FlagSet) {
	for _, s := range configs.Settings() {
		if fs.Lookup(s.Flag) == nil {
			fs.VarPF(&value{check: s.Check}, s.Flag, "", s.Usage).NoOptDefVal = s.Bare
		}
	}
}

// AddShape adds the flags that `ddlemu shape` has, except those that fs has already.
func AddShape(fs *pflag.FlagSet) {
	for _, m := range configs.LinkParams() {
		if m.Flag != "" && fs.Lookup(m.Flag) == nil {
			fs.Var(&value{check: func(text string) error { return m.Set(&configs.LinkPatch{}, text) }}, m.Flag, m.Usage)
		}
	}
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
	src.Setting = func(s *configs.Setting) (text, where string) {
		switch {
		case !v.IsSet(s.Flag):
			return "", ""
		case fs.Changed(s.Flag):
			where = "--" + s.Flag
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
		if text := getenv(s.Env); text != "" {
			env[s.Flag] = text
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
}

func (v *value) String() string { return v.text }

// Type must not be the name of a type that viper converts by itself.
func (v *value) Type() string { return "setting" }

func (v *value) Set(text string) error {
	if err := v.check(text); err != nil {
		return err
	}
	v.text = text
	return nil
}
