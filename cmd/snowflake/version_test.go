package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTheVersionTellsWhatWasBuilt(t *testing.T) {
	t.Parallel()
	platform := ", " + runtime.GOOS + "/" + runtime.GOARCH
	for want, info := range map[string]*debug.BuildInfo{
		"snowflake unknown, " + runtime.Version() + platform: nil,
		"snowflake v1.2.3, go1.25.0" + platform: {
			GoVersion: "go1.25.0", Main: debug.Module{Version: "v1.2.3"},
		},
		"snowflake (devel), revision 8dc9219 with uncommitted changes, go1.26.1" + platform: {
			GoVersion: "go1.26.1", Main: debug.Module{Version: "(devel)"},
			Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: "8dc9219"}, {Key: "vcs.modified", Value: "true"},
			},
		},
	} {
		if got := versionOf(info).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
