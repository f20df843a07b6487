package merge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/layouts"
)

// Layout is the layout of the IDs: the name of a preset, or a layout of your own.
type Layout struct {
	// Preset is default, twitter, shardingsphere, business, javascript, game, gamelong, gamesecond, game16 or
	// game16fast. The other fields describe a layout of your own.
	Preset       string        `yaml:"preset,omitempty" json:"preset,omitempty"`
	Epoch        time.Time     `yaml:"epoch,omitempty" json:"epoch,omitzero"`
	Tick         time.Duration `yaml:"tick,omitempty" json:"tick,omitempty"`
	TimeBits     int           `yaml:"time_bits,omitempty" json:"time_bits,omitempty"`
	Node         []NodeField   `yaml:"node,omitempty" json:"node,omitempty"`
	SequenceBits int           `yaml:"sequence_bits,omitempty" json:"sequence_bits,omitempty"`
	// Server is the name of the node field that holds the server number. By default it is the whole node
	// number.
	Server string `yaml:"server,omitempty" json:"server,omitempty"`
}

// NodeField is a part of the node number.
type NodeField struct {
	Name string `yaml:"name" json:"name"`
	Bits int    `yaml:"bits" json:"bits"`
}

// UnmarshalYAML also accepts the name of a preset in place of the fields.
func (l *Layout) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*l = Layout{}
		return node.Decode(&l.Preset)
	}
	type plain Layout
	return node.Decode((*plain)(l))
}

// MarshalYAML writes a preset as its name alone.
func (l Layout) MarshalYAML() (any, error) {
	if l.Preset != "" && l.Server == "" {
		return l.Preset, nil
	}
	type plain Layout
	return plain(l), nil
}

// Resolve returns the layout that a plan describes, by the name of a preset or by its bits, in the form of
// package generator.
func (l Layout) Resolve() (generator.Layout, error) {
	own := !l.Epoch.IsZero() || l.Tick != 0 || l.TimeBits != 0 || len(l.Node) > 0 || l.SequenceBits != 0
	switch {
	case l.Preset != "" && own:
		return generator.Layout{}, fmt.Errorf("it has both the preset %q and fields of a layout of your own: "+
			"remove either; only server: can stand beside a preset", l.Preset)
	case l.Preset != "":
		preset, found := layouts.Named(l.Preset)
		if !found {
			return preset.Layout, fmt.Errorf("%q is not a preset; the presets are %s", l.Preset,
				strings.ToLower(strings.Join(layouts.Names(), ", ")))
		}
		return preset.Layout, nil
	case l.TimeBits == 0:
		return generator.Layout{}, errors.New("it is missing: give the name of a preset, such as game")
	}
	layout := generator.Layout{Epoch: l.Epoch, Tick: l.Tick, TimeBits: l.TimeBits,
		SequenceBits: l.SequenceBits}
	for _, f := range l.Node {
		layout.Node = append(layout.Node, generator.Field(f))
	}
	return layout, layout.Validate()
}

// decoder extracts the server number from an ID: (id >> shift) & mask.
type decoder struct {
	shift int
	mask  int64
	// least is the least ID that a generator may have made. A database has counted smaller keys. They have no
	// time in them, or fit into 32 bits: real games count that far, and a generator is past them within minutes
	// of its epoch.
	least int64
}

func (l Layout) decoder() (decoder, error) {
	layout, err := l.Resolve()
	if err != nil {
		return decoder{}, err
	}
	d := decoder{shift: layout.SequenceBits, mask: layout.MaxNode(),
		least: max(int64(1)<<32, int64(1)<<(layout.NodeBits()+layout.SequenceBits))}
	if l.Server == "" {
		return d, nil
	}
	for _, f := range slices.Backward(layout.Node) {
		if f.Name == l.Server {
			d.mask = 1<<f.Bits - 1
			return d, nil
		}
		d.shift += f.Bits
	}
	return decoder{}, fmt.Errorf("the layout has no field %q in its node number", l.Server)
}
