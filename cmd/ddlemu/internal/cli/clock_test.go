// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
)

// --set time_scale=auto asks for the real clock, also where the software CUDA would have a virtual one.
func TestSettleClock(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
		err  error
	}{
		{nil, "", nil},
		{[]string{"--set", "time_scale=8"}, "", nil}, // the scale says it
		{[]string{"--set", "time_scale=auto"}, configs.RealClock, nil},
		{[]string{"--set", "time_scale=auto", "--clock", "real"}, configs.RealClock, nil},
		{[]string{"--set", "time_scale=auto", "--clock", "virtual"}, configs.VirtualClock, errNoScale},
		{[]string{"--clock", "virtual"}, configs.VirtualClock, nil},
	} {
		fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
		flags.AddFabric(fs)
		if err := fs.Parse(tc.args); err != nil {
			t.Fatal(err)
		}
		c, err := flags.Load(configs.Source{Profile: "eth1", Getenv: func(string) string { return "" }}, fs)
		if err != nil {
			t.Fatal(err)
		}
		isAuto := tc.want == configs.RealClock
		if auto, err := SettleClock(fs, c); auto != isAuto || !errors.Is(err, tc.err) || c.Clock != tc.want {
			t.Errorf("%q: auto %v, clock %q, %v; want %v, %q, %v", tc.args, auto, c.Clock, err, isAuto, tc.want, tc.err)
		}
	}
}
