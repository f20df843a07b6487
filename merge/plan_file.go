package merge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// planFile is a plan as it stands in its file: tables with the same settings share an entry, and columns
// about which nobody has decided are listed by the keys that they may hold.
type planFile struct {
	Plan      `yaml:",inline"`
	Groups    []tableGroup        `yaml:"groups,omitempty"`
	Undecided map[string][]string `yaml:"undecided,omitempty"`
}

// tableGroup is the entry of tables with the same settings.
type tableGroup struct {
	Names     []string `yaml:"tables"`
	TablePlan `yaml:",inline"`
}

const heading = `# Policies: copy, rename, sum, keep_first, newest, rebuild (leave empty), skip. Where
# something is kept, it is what the first server has. Nothing runs while something is undecided: check says
# what to choose from, and plan.lock what speaks for a column, which goes under in: of its identity, or under
# plain: if it holds no keys. apart: all gives new keys to the rows of every server, so that a reference that
# nobody knows of leads to no row; merge_offsets in the target says by how much, for websites and logs.
`

// Load reads a plan from a YAML file. The error wraps [ErrPlan] if the file is no plan.
func Load(path string) (*Plan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("merge: the plan cannot be read: %w", err)
	}
	return Parse(text)
}

// Parse reads a plan from YAML. An unknown field is an error, because it may be a misspelled one. The
// error wraps [ErrPlan].
func Parse(text []byte) (*Plan, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	file := &planFile{}
	err := d.Decode(file)
	if err == nil && !errors.Is(d.Decode(&planFile{}), io.EOF) {
		err = errors.New("the file goes on after the plan")
	}
	if err == nil {
		err = file.readNulls(text)
	}
	if err == nil {
		err = file.expand()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	return &file.Plan, file.Validate()
}

// readNulls makes "orphans: null" mean the text null. YAML reads it as no value, which would be the default.
func (f *planFile) readNulls(text []byte) error {
	type table struct {
		Orphans yaml.Node `yaml:"orphans"`
	}
	var raw struct {
		Tables map[string]table `yaml:"tables"`
		Groups []table          `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return err
	}
	read := func(t table, into *TablePlan) {
		if into != nil && t.Orphans.Tag == "!!null" && strings.EqualFold(t.Orphans.Value, "null") {
			into.Orphans = "null"
		}
	}
	for name, t := range raw.Tables {
		read(t, f.Tables[name])
	}
	for i, t := range raw.Groups {
		read(t, &f.Groups[i].TablePlan)
	}
	return nil
}

// expand gives each table of a group an entry of its own, and each column that is undecided a place there.
func (f *planFile) expand() error {
	if f.Tables == nil {
		f.Tables = map[string]*TablePlan{}
	}
	for _, g := range f.Groups {
		for _, name := range g.Names {
			if f.Tables[name] != nil {
				return fmt.Errorf("the table %s has two policies", name)
			}
			own := g.TablePlan
			f.Tables[name] = &own
		}
	}
	for _, candidate := range slices.Sorted(maps.Keys(f.Undecided)) {
		for _, text := range f.Undecided[candidate] {
			e, err := parseHolder(text)
			t := f.Tables[e.table]
			if err == nil && t == nil {
				err = fmt.Errorf("there is no table %q in the plan", e.table)
			}
			if err != nil {
				return fmt.Errorf("undecided: %s: %w", candidate, err)
			}
			t.Undecided = append(t.Undecided, e.open(candidate))
		}
	}
	return nil
}

// fold is the opposite of expand.
func (p *Plan) fold() (*planFile, error) {
	f := &planFile{Plan: *p, Undecided: map[string][]string{}}
	f.Tables = map[string]*TablePlan{}
	alike := map[string]int{} // the positions of the groups, by the text of the entry
	for _, name := range slices.Sorted(maps.Keys(p.Tables)) {
		if p.Tables[name] == nil {
			continue
		}
		own := *p.Tables[name]
		own.Undecided = slices.DeleteFunc(slices.Clone(own.Undecided), func(o OpenColumn) bool {
			e := o.holder(name)
			written := e.plain()
			if written {
				f.Undecided[o.Candidate] = append(f.Undecided[o.Candidate], e.String())
			}
			return written
		})
		text, err := yaml.Marshal(own)
		if err != nil {
			return nil, err
		}
		at, known := alike[string(text)]
		if !known {
			at, alike[string(text)] = len(f.Groups), len(f.Groups)
			f.Groups = append(f.Groups, tableGroup{TablePlan: own})
		}
		f.Groups[at].Names = append(f.Groups[at].Names, name)
	}
	f.Groups = slices.DeleteFunc(f.Groups, func(g tableGroup) bool {
		if len(g.Names) == 1 {
			f.Tables[g.Names[0]] = &g.TablePlan
		}
		return len(g.Names) == 1
	})
	return f, nil
}

// oneLine is a part of a plan as it stands in its file.
func oneLine(v any) string {
	n := &yaml.Node{}
	err := n.Encode(v)
	n.Style |= yaml.FlowStyle
	text, err2 := yaml.Marshal(n)
	if err = errors.Join(err, err2); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// YAML writes the plan.
func (p *Plan) YAML() ([]byte, error) {
	f, err := p.fold()
	root := &yaml.Node{}
	if err == nil {
		err = root.Encode(f)
	}
	var text bytes.Buffer
	if err == nil {
		compact(root)
		f.comment(root)
		e := yaml.NewEncoder(&text)
		e.SetIndent(2)
		err = errors.Join(e.Encode(root), e.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be written: %w", ErrPlan, err)
	}
	return []byte(heading + wrapped(text.String())), nil
}

// compact puts each entry of the parts of a plan on a line of its own, and lists of words on one line.
func compact(root *yaml.Node) {
	for _, part := range root.Content {
		if len(part.Content) == 0 {
			continue
		}
		entries := []*yaml.Node{part}
		if first := part.Content[min(1, len(part.Content)-1)]; first.Kind != yaml.ScalarNode {
			entries = part.Content
		}
		for _, n := range entries {
			if n.Kind != yaml.ScalarNode {
				n.Style |= yaml.FlowStyle
			}
		}
	}
}

// comment says above each identity what speaks for its columns.
func (f *planFile) comment(root *yaml.Node) {
	for i, part := range root.Content {
		if i%2 > 0 || part.Value != "identities" {
			continue
		}
		for _, name := range root.Content[i+1].Content {
			if id := f.Identities[name.Value]; id != nil {
				name.HeadComment = id.note
			}
		}
	}
}

// wrapped breaks lines that are too long behind commas, which YAML allows within brackets.
func wrapped(text string) string {
	const longest = 110
	var out strings.Builder
	for line := range strings.Lines(text) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))] + "    "
		for len(line) > longest+1 && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			at := breakAt(line, longest)
			if at == 0 {
				break
			}
			out.WriteString(strings.TrimRight(line[:at], " ") + "\n")
			line = indent + line[at:]
		}
		out.WriteString(line)
	}
	return out.String()
}

// breakAt returns where a line can be broken behind a comma: at the last place before so many bytes, or else
// at the first one. It is 0 if there is none.
func breakAt(line string, longest int) (at int) {
	quote := byte(0)
	for i := 2; i < len(line); i++ {
		before := line[i-2 : i]
		c, behind := line[i], before == ", "
		begins := behind || before == ": " || strings.ContainsAny(before[1:], "[{")
		switch {
		case quote == '"' && c == '\\', quote == '\'' && strings.HasPrefix(line[i:], "''"):
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case behind && at > 0 && i > longest:
			return at
		case behind && strings.TrimSpace(line[:i]) != "":
			at = i
		}
		if quote == 0 && begins && (c == '"' || c == '\'') {
			quote = c
		}
	}
	return at
}

// Save writes the plan to a new file that only its owner can read, since a DSN may contain a password. It
// does not overwrite a file.
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
