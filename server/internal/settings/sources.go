package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The kinds of sources beside the generator.
const (
	KindSegment = "segment"
	KindTickets = "tickets"
	KindDaily   = "daily"
)

// Source is a source of numbers beside the generator, as the file of settings describes it.
type Source struct {
	// Name is what requests call it.
	Name string `yaml:"-"`
	// Kind is KindSegment, KindTickets or KindDaily.
	Kind string `yaml:"kind"`
	// Counter is its counter in the database. By default it has the name of the source.
	Counter string `yaml:"counter"`
	// Least and Most bound how many numbers are claimed at once. Both are 0 for the default.
	Least int64 `yaml:"least"`
	Most  int64 `yaml:"most"`
	// Horizon is how long a block should last, 0 for the default.
	Horizon time.Duration `yaml:"horizon"`
	// Start is the least number, 0 for the default.
	Start int64 `yaml:"start"`
	// Digits and Zone belong to KindDaily.
	Digits int    `yaml:"digits"`
	Zone   string `yaml:"zone"`
	// Servers belong to KindTickets: the databases, whose order must not change.
	Servers []Server `yaml:"servers"`

	// Location is the zone.
	Location *time.Location `yaml:"-"`
}

// Server is one ticket server. Exactly one of the two is set in the file, and DSN afterwards.
type Server struct {
	DSN     string `yaml:"dsn"`
	DSNFile string `yaml:"dsn-file"`
}

// reserved is the name of the generator.
const reserved = "snowflake"

// maxSourceName is how long the name of a source may be: a request and a label of a metric have it.
const maxSourceName = 60

// readSources reads the part of the file that lists the sources.
func (d *document) readSources(content *yaml.Node) error {
	if content.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: sources are written as name: and then what they are", d.path, content.Line)
	}
	for i := 0; i < len(content.Content); i += 2 {
		key := content.Content[i]
		source, err := readSource(content.Content[i+1])
		if err != nil {
			return fmt.Errorf("%s:%d: the source %q: %w", d.path, key.Line, key.Value, err)
		}
		source.Name = key.Value
		if err := source.complete(); err != nil {
			return fmt.Errorf("%s:%d: the source %q: %w", d.path, key.Line, key.Value, err)
		}
		for _, other := range d.sources {
			if other.Name == source.Name {
				return fmt.Errorf("%s:%d: the source %q is there twice", d.path, key.Line, key.Value)
			}
			if other.Counter == source.Counter && other.Kind != source.Kind && other.isHome() && source.isHome() {
				return fmt.Errorf("%s:%d: the source %q is of the kind %s and has the counter %q, which the source "+
					"%q of the kind %s has: give one of them another counter", d.path, key.Line, key.Value, source.Kind,
					source.Counter, other.Name, other.Kind)
			}
		}
		d.sources = append(d.sources, source)
	}
	return nil
}

// readSource refuses fields that it does not know.
func readSource(content *yaml.Node) (source Source, err error) {
	text, err := yaml.Marshal(content)
	if err != nil {
		return source, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&source); err != nil {
		// The error of the decoder may quote a value, and a DSN may hold a password.
		var wrong *yaml.TypeError
		if errors.As(err, &wrong) && !strings.Contains(string(text), "dsn") {
			return source, err
		}
		return source, errors.New("a field is unknown, or has a value that cannot be read; there are kind, " +
			"counter, least, most, horizon, start, digits, zone, and servers with dsn or dsn-file")
	}
	return source, nil
}

// isHome reports whether the counter lies in the database of the service.
func (s *Source) isHome() bool { return s.Kind != KindTickets }

// complete checks a source and fills in the defaults.
func (s *Source) complete() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	plain := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return letter || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)
	}
	if s.Name == reserved || s.Name == "" || len(s.Name) > maxSourceName ||
		strings.ContainsFunc(s.Name, func(r rune) bool { return !plain(r) }) {
		fault("a name has letters, digits, dots, dashes and underscores, at most %d, and is not %q",
			maxSourceName, reserved)
	}
	s.Counter = cmp.Or(s.Counter, s.Name)
	if (s.Least == 0) != (s.Most == 0) {
		fault("least and most belong together")
	}
	switch s.Kind {
	case KindSegment, KindTickets, KindDaily:
	default:
		fault("the kind is %q, but has to be %s, %s or %s", s.Kind, KindSegment, KindTickets, KindDaily)
	}
	if daily := s.Kind == KindDaily; daily != (s.Digits != 0) || daily != (s.Zone != "") {
		fault("digits and zone are needed for the kind %s, and for that only", KindDaily)
	}
	var err error
	if s.Location, err = time.LoadLocation(s.Zone); err != nil {
		fault("the zone %q is unknown; write one such as Europe/Berlin or UTC", s.Zone)
	}
	if tickets := s.Kind == KindTickets; tickets != (len(s.Servers) > 0) {
		fault("servers are needed for the kind %s, and for that only", KindTickets)
	}
	for i := range s.Servers {
		faults = append(faults, s.Servers[i].complete(i))
	}
	return errors.Join(faults...)
}

func (s *Server) complete(i int) error {
	if (s.DSN == "") == (s.DSNFile == "") {
		return fmt.Errorf("server %d needs a dsn or a dsn-file, and not both", i)
	}
	if s.DSNFile == "" {
		return nil
	}
	text, err := os.ReadFile(s.DSNFile)
	if err != nil {
		return fmt.Errorf("the dsn-file of server %d: %w", i, err)
	}
	s.DSN = strings.TrimSpace(string(text))
	return nil
}
