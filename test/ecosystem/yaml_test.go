package ecosystem_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// settings is a document with IDs in every place.
type settings struct {
	ID    snowflakeplugin.ID            `yaml:"id"`
	Owner *snowflakeplugin.ID           `yaml:"owner"`
	List  []snowflakeplugin.ID          `yaml:"list"`
	ByID  map[snowflakeplugin.ID]string `yaml:"by_id"`
	Empty snowflakeplugin.ID            `yaml:"empty,omitempty"`
}

func TestYAMLKeepsEveryDigit(t *testing.T) {
	t.Parallel()
	const large snowflakeplugin.ID = 1541815603606036481
	owner := snowflakeplugin.ID(math.MaxInt64)
	in := settings{
		ID: large, Owner: &owner, List: []snowflakeplugin.ID{0, 1, large},
		ByID: map[snowflakeplugin.ID]string{large: "large"},
	}
	text, err := yaml.Marshal(in)
	must(t, err, "Marshal")
	// Quoted, because many YAML readers turn long numbers into floats.
	want := `id: "1541815603606036481"
owner: "9223372036854775807"
list:
    - "0"
    - "1"
    - "1541815603606036481"
by_id:
    "1541815603606036481": large
`
	if string(text) != want {
		t.Errorf("Marshal gives\n%s\nwant\n%s", text, want)
	}
	var out settings
	must(t, yaml.Unmarshal(text, &out), "Unmarshal")
	if out.ID != large || out.Owner == nil || *out.Owner != owner || len(out.List) != 3 ||
		out.List[2] != large || out.ByID[large] != "large" {
		t.Errorf("Unmarshal gives %+v, want %+v", out, in)
	}
}

func TestYAMLReadsPlainNumbersAndNull(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]snowflakeplugin.ID{
		"id: 1541815603606036481":       1541815603606036481,
		"id: '1541815603606036481'":     1541815603606036481,
		`id: "1541815603606036481"`:     1541815603606036481,
		"id: 0":                         0,
		"id: 9223372036854775807":       math.MaxInt64,
		"id: null":                      7, // null leaves the value, as with the standard library's JSON
		"id:":                           7,
		"id: ~":                         7,
		"{id: !!str 5}":                 5,
		"base: &a 12\nid: *a\n":         12,
		"id: >-\n  1541815603606036481": 1541815603606036481,
	} {
		got := settings{ID: 7}
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got.ID != want {
			t.Errorf("%q gives %v, want %v", text, got.ID, want)
		}
	}
}

func TestYAMLRefusesWhatIsNoID(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`id: ""`, "id: 12x", "id: 1.5", "id: 1e3", "id: -1", "id: 0x10", "id: 0o17", "id: 1_000",
		"id: 9223372036854775808", "id: 15418156036060364810", "id: true", "id: '1 2'", "id: .nan",
	} {
		got := settings{ID: 7}
		err := yaml.Unmarshal([]byte(text), &got)
		switch {
		case err == nil:
			t.Errorf("%q gives %v, want an error", text, got.ID)
		case !errors.Is(err, snowflakeplugin.ErrInvalidID) &&
			!strings.Contains(err.Error(), snowflakeplugin.ErrInvalidID.Error()):
			t.Errorf("%q: %v, which does not say that it is no ID", text, err)
		case got.ID != 7:
			t.Errorf("%q: the value is %v after the error", text, got.ID)
		}
	}
	for _, text := range []string{"id: [1]", "id: {a: 1}"} {
		got := settings{ID: 7}
		if err := yaml.Unmarshal([]byte(text), &got); err == nil || got.ID != 7 {
			t.Errorf("%q: the value is %v, the error %v", text, got.ID, err)
		}
	}
}
