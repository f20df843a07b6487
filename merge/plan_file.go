package merge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load reads a plan from a YAML file. The error wraps [ErrPlan] if the file is no plan.
func Load(path string) (*Plan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("merge: the plan cannot be read: %w", err)
	}
	return Parse(text)
}

// Parse reads a plan from YAML. A word that means nothing is an error, as it may be a slip of the pen. The
// error wraps [ErrPlan].
func Parse(text []byte) (*Plan, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	p := &Plan{}
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	if err := d.Decode(&Plan{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows behind the plan", ErrPlan)
	}
	if err := p.readNulls(text); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	return p, p.Validate()
}

// readNulls takes "orphans: null" as it is meant: for YAML that is nothing at all, which would leave the
// table with the default.
func (p *Plan) readNulls(text []byte) error {
	var raw struct {
		Tables map[string]struct {
			Orphans yaml.Node `yaml:"orphans"`
		} `yaml:"tables"`
	}
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return err
	}
	for name, t := range raw.Tables {
		if p.Tables[name] != nil && t.Orphans.Tag == "!!null" && strings.EqualFold(t.Orphans.Value, "null") {
			p.Tables[name].Orphans = "null"
		}
	}
	return nil
}

// YAML writes the plan.
func (p *Plan) YAML() ([]byte, error) {
	var text bytes.Buffer
	text.WriteString(heading)
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := e.Encode(p); err != nil {
		return nil, fmt.Errorf("%w: it cannot be written: %w", ErrPlan, err)
	}
	return text.Bytes(), e.Close()
}

// Save writes the plan to a new file, readable by its owner only, since a DSN may hold a password. A file
// that is there already is not overwritten.
func (p *Plan) Save(path string) (err error) {
	text, err := p.YAML()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("merge: the plan cannot be written: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(text)
	return err
}

const heading = `# What is merged into what, and what becomes of every table.
#
# Policies: copy, rename, sum, keep_target, newest, rebuild (leave empty), skip, custom.
# The order of the servers counts: where something is kept, it is what the first server has.
# A DSN may be $NAME, the name of an environment variable, so that no password stands here.

`
