package settings

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds the file of settings.
const maxFile = 1 << 20

// document is the file of settings.
type document struct {
	path    string
	values  map[string]value
	sources []Source
}

type value struct {
	text string
	line int
}

// readFile reads a file of settings. An unknown key is an error, because a mistake in typing would leave
// a limit at its default.
func readFile(path string) (*document, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("the configuration %s has more than %d bytes", path, maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("the configuration %s is not YAML: %w", path, err)
	}
	d := &document{path: path, values: map[string]value{}}
	if len(root.Content) == 0 {
		return d, nil
	}
	top := root.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: settings are written as name: value", path, top.Line)
	}
	for i := 0; i < len(top.Content); i += 2 {
		if err := d.read(top.Content[i], top.Content[i+1]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *document) read(key, content *yaml.Node) error {
	name := key.Value
	if _, twice := d.values[name]; twice {
		return fmt.Errorf("%s:%d: %s is set twice", d.path, key.Line, name)
	}
	switch {
	case name == "sources":
		return d.readSources(content)
	case content.Kind == yaml.ScalarNode:
		d.values[name] = value{content.Value, key.Line}
	case content.Kind == yaml.SequenceNode:
		var items []string
		for _, item := range content.Content {
			if item.Kind != yaml.ScalarNode {
				return fmt.Errorf("%s:%d: a list of plain values is expected", d.path, item.Line)
			}
			items = append(items, item.Value)
		}
		d.values[name] = value{strings.Join(items, ","), key.Line}
	default:
		return fmt.Errorf("%s:%d: %s has to be a plain value", d.path, key.Line, name)
	}
	return nil
}

func (d *document) apply(set *flag.FlagSet, origins map[string]string) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(d.values)) {
		v := d.values[name]
		if set.Lookup(name) == nil || slices.Contains([]string{"config", "check-config", "version"}, name) {
			faults = append(faults, fmt.Errorf("%s:%d: %q is no setting", d.path, v.line, name))
			continue
		}
		if err := set.Set(name, v.text); err != nil {
			if slices.Contains(secrets(), name) {
				err = errors.New("the value cannot be read")
			}
			faults = append(faults, fmt.Errorf("%s:%d: %s: %w", d.path, v.line, name, err))
			continue
		}
		origins[name] = "file"
	}
	return errors.Join(faults...)
}
