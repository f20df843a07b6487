package main

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"
)

func versionCommand() command {
	return command{
		name: "version", short: "print the version of this program",
		help: `
Prints the version of the module that this program was built from, the revision of its source code if
the Go command recorded one, the version of Go, and the platform. "snowflake --version" does the same.

  snowflake version
  snowflake version --json`,
		flags: onlyJSON,
		run:   runVersion,
	}
}

// versionInfo is what is known about the build, in JSON.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision
	Modified bool   `json:"modified"`       // the source code had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func runVersion(_ context.Context, e *env, o *options, _ []string) error {
	info, _ := debug.ReadBuildInfo()
	v := versionOf(info)
	if o.json {
		return printJSON(e.out, v)
	}
	say(e.out, "%s\n", v)
	return nil
}

// versionOf reads the version from what the Go command recorded. A nil info means that it recorded
// nothing, as for a binary that was built without modules.
func versionOf(info *debug.BuildInfo) versionInfo {
	v := versionInfo{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return v
	}
	v.Version, v.Go = cmp.Or(info.Main.Version, v.Version), cmp.Or(info.GoVersion, v.Go)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v versionInfo) String() string {
	text := "snowflake " + v.Version
	if v.Revision != "" {
		text += ", revision " + v.Revision
		if v.Modified {
			text += " with uncommitted changes"
		}
	}
	return text + ", " + v.Go + ", " + v.Platform
}
