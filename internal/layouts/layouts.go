// Package layouts finds the presets of package generator by their names.
package layouts

import (
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Preset is a layout, named after the function that returns it.
type Preset struct {
	Name   string
	Layout generator.Layout
}

// All returns the presets, the default first.
func All() []Preset {
	return []Preset{
		{"Default", generator.Default()},
		{"Twitter", generator.Twitter()},
		{"ShardingSphere", generator.ShardingSphere()},
		{"Business", generator.Business()},
		{"JavaScript", generator.JavaScript()},
		{"Game", generator.Game()},
		{"GameLong", generator.GameLong()},
		{"GameSecond", generator.GameSecond()},
		{"Game16", generator.Game16()},
		{"Game16Fast", generator.Game16Fast()},
	}
}

// Names returns the names of the presets, the default first.
func Names() []string {
	var names []string
	for _, p := range All() {
		names = append(names, p.Name)
	}
	return names
}

// Named finds a preset by its name, in which case does not matter.
func Named(name string) (p Preset, found bool) {
	for _, p := range All() {
		if strings.EqualFold(p.Name, name) {
			return p, true
		}
	}
	return Preset{}, false
}
