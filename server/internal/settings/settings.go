// Package settings reads the configuration of the service. A setting comes from a flag, else from the
// environment, else from the YAML file, else it has its default. Every setting has one name, in all three
// forms:
//
//	--max-count 500      SNOWFLAKED_MAX_COUNT=500      max-count: 500
package settings

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/layouts"
)

// Settings is the configuration of a service. The flags document it.
type Settings struct {
	Listen, RESP      string
	Admin             string
	DSN, DSNFile      string
	Table, Layout     string
	Nodes             string
	Span              time.Duration
	TLSCert, TLSKey   string
	TLSClientCA       string
	TokenFile         string
	Insecure          bool
	Origins           string
	Hosts             string
	MaxCount          int
	MaxBody           int
	MaxConnections    int
	MaxRequests       int
	MaxTime           time.Duration
	Idle              time.Duration
	DrainDelay, Drain time.Duration
	LogFormat         string
	LogLevel          slog.Level
	Config            string
	CheckConfig       bool
	Version           bool
	Sources           []Source

	set     *flag.FlagSet     // bound to the fields above
	origins map[string]string // where each setting comes from
}

// DefaultDSN is the database that is used if none is configured.
const DefaultDSN = "sqlite:snowflaked.db"

// secrets are the settings whose value is never shown.
func secrets() []string { return []string{"dsn"} }

func (s *Settings) flags(set *flag.FlagSet) {
	set.StringVar(&s.Listen, "listen", "127.0.0.1:7070",
		"serve gRPC, gRPC-Web, JSON, probes and metrics on this `ADDRESS`")
	set.StringVar(&s.RESP, "resp", "127.0.0.1:7071",
		"serve the protocol of Redis on this `ADDRESS`; \"off\" for not at all")
	set.StringVar(&s.Admin, "admin", "off",
		"serve probes, metrics and the profiles of pprof, without tokens or TLS, on this `ADDRESS`")
	set.StringVar(&s.DSN, "dsn", "", "the `DSN` of the database with the leases (default "+DefaultDSN+
		"); use --dsn-file or the environment if it holds a password")
	set.StringVar(&s.DSNFile, "dsn-file", "", "read the DSN from this `FILE`")
	set.StringVar(&s.Table, "table", "snowflake_nodes",
		"the `TABLE` of the leases, with its schema if it needs one")
	set.StringVar(&s.Layout, "layout", "default",
		"the `LAYOUT` of the IDs; never change it for IDs that are in use")
	set.StringVar(&s.Nodes, "nodes", "", "lease only node numbers of this `RANGE`, such as 0-99")
	set.DurationVar(&s.Span, "span", time.Minute,
		"how long a lease lasts: two thirds of it bridge an outage of the database")
	set.StringVar(&s.TLSCert, "tls-cert", "", "the `FILE` of the TLS certificate, with its chain")
	set.StringVar(&s.TLSKey, "tls-key", "", "the `FILE` of its key")
	set.StringVar(&s.TLSClientCA, "tls-client-ca", "",
		"a `FILE` of authorities; clients have to show a certificate of one of them")
	set.StringVar(&s.TokenFile, "token-file", "",
		"a `FILE` of names and tokens; clients have to show one of the tokens")
	set.BoolVar(&s.Insecure, "insecure", false,
		"allow addresses that are not loopback without TLS, or without tokens and client certificates")
	set.StringVar(&s.Origins, "origins", "", "the web `ORIGINS` whose pages may ask, with commas; * for all")
	set.StringVar(&s.Hosts, "hosts", "",
		"the `HOSTS` by which HTTP clients may call a service without tokens and client "+
			"certificates, with commas, beside localhost, the addresses of loopback and that of listen; * for all")
	set.IntVar(&s.MaxCount, "max-count", 10_000, "how many IDs one request may ask for")
	set.IntVar(&s.MaxBody, "max-body", 16<<10, "how many `BYTES` the body of a request may have")
	set.IntVar(&s.MaxConnections, "max-connections", 4096,
		"how many connections there may be; idle ones give way")
	set.IntVar(&s.MaxRequests, "max-requests", 1024, "how many HTTP requests are worked on at once")
	set.DurationVar(&s.MaxTime, "max-time", 5*time.Second,
		"how long a request may take, to arrive and to be answered")
	set.DurationVar(&s.Idle, "idle", 5*time.Minute, "how long a connection may wait for its next request")
	set.DurationVar(&s.DrainDelay, "drain-delay", 0,
		"after SIGTERM serve on for this long, but not ready, until balancers know")
	set.DurationVar(&s.Drain, "drain", 10*time.Second,
		"then wait for this long until all requests are answered")
	set.StringVar(&s.LogFormat, "log-format", "json", "json or text")
	set.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	set.StringVar(&s.Config, "config", "", "a YAML `FILE` of settings, and of sources beside the generator")
	set.BoolVar(&s.CheckConfig, "check-config", false,
		"print the configuration and end: status 0 if it is right")
	set.BoolVar(&s.Version, "version", false, "print the version and end")
}

// Load reads the settings. Output receives the help. It returns flag.ErrHelp if that was asked for.
func Load(args, environ []string, output io.Writer) (*Settings, error) {
	// The first pass finds the file only, which everything else overrides.
	first := &Settings{}
	if err := first.parse(args, environ, nil, output); err != nil {
		return nil, err
	}
	var file *document
	if first.Config != "" {
		var err error
		if file, err = readFile(first.Config); err != nil {
			return nil, err
		}
	}
	s := &Settings{}
	if err := s.parse(args, environ, file, output); err != nil {
		return nil, err
	}
	if s.Version {
		return s, nil
	}
	return s, s.complete()
}

// parse applies the file, the environment and the flags, each over the one before.
func (s *Settings) parse(args, environ []string, file *document, output io.Writer) error {
	set := flag.NewFlagSet("snowflaked", flag.ContinueOnError)
	set.SetOutput(io.Discard) // whoever asked prints the error, once
	s.flags(set)
	s.set, s.origins = set, map[string]string{}
	if file != nil {
		if err := file.apply(set, s.origins); err != nil {
			return err
		}
		s.Sources = file.sources
	}
	if err := applyEnvironment(set, environ, s.origins); err != nil {
		return err
	}
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(output, usage)
			set.SetOutput(output)
			set.PrintDefaults()
		}
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("the argument %q is not expected: settings are flags", set.Arg(0))
	}
	for _, arg := range args { // flag.Visit would name those that the file has set, too
		if strings.HasPrefix(arg, "-") {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			s.origins[name] = "flag"
		}
	}
	return nil
}

// prefix begins the names of the settings in the environment.
const prefix = "SNOWFLAKED_"

func applyEnvironment(set *flag.FlagSet, environ []string, origins map[string]string) error {
	for _, pair := range environ {
		variable, value, _ := strings.Cut(pair, "=")
		name, ours := strings.CutPrefix(variable, prefix)
		if !ours {
			continue
		}
		name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if set.Lookup(name) == nil {
			return fmt.Errorf("the environment variable %s is no setting", variable)
		}
		if err := set.Set(name, value); err != nil {
			return fmt.Errorf("the environment variable %s: %w", variable, err)
		}
		origins[name] = "environment"
	}
	return nil
}

// complete fills in what follows from other settings, and reports all faults at once.
func (s *Settings) complete() error {
	_, ofLayout := s.LayoutOf()
	_, _, _, ofNodes := s.NodeRange()
	faults := []error{s.readDSN(), s.checkLimits(), ofLayout, ofNodes}
	if (s.TLSCert == "") != (s.TLSKey == "") {
		faults = append(faults, errors.New("tls-cert and tls-key belong together"))
	}
	if s.TLSClientCA != "" && s.TLSCert == "" {
		faults = append(faults, errors.New("tls-client-ca needs tls-cert and tls-key"))
	}
	if s.LogFormat != "json" && s.LogFormat != "text" {
		faults = append(faults, fmt.Errorf("log-format is json or text, not %q", s.LogFormat))
	}
	faults = append(faults, s.checkHosts())
	for name, address := range map[string]string{"listen": s.Listen, "resp": s.RESP, "admin": s.Admin} {
		if name != "listen" && address == "off" {
			continue
		}
		faults = append(faults, s.checkAddress(name, address))
	}
	return errors.Join(faults...)
}

// readDSN takes the DSN from its file. The flags and the environment come before the file of settings, so
// a DSN and a file of one only contradict each other if they come from the same place.
func (s *Settings) readDSN() error {
	if s.DSNFile == "" {
		s.DSN = cmp.Or(s.DSN, DefaultDSN)
		return nil
	}
	if s.DSN != "" {
		return errors.New("dsn and dsn-file exclude each other")
	}
	text, err := os.ReadFile(s.DSNFile)
	if err != nil {
		return fmt.Errorf("dsn-file cannot be read: %w", err)
	}
	if s.DSN = strings.TrimSpace(string(text)); s.DSN == "" {
		return errors.New("dsn-file is empty")
	}
	return nil
}

func (s *Settings) checkLimits() error {
	return errors.Join(
		within("max-count", s.MaxCount, 1, 1_000_000),
		within("max-body", s.MaxBody, 64, 1<<20),
		within("max-connections", s.MaxConnections, 1, 1_000_000),
		within("max-requests", s.MaxRequests, 1, 1_000_000),
		within("span", s.Span, 10*time.Millisecond, 24*time.Hour),
		within("max-time", s.MaxTime, time.Millisecond, time.Hour),
		within("idle", s.Idle, time.Millisecond, 24*time.Hour),
		within("drain-delay", s.DrainDelay, 0, time.Hour),
		within("drain", s.Drain, 0, time.Hour),
	)
}

func within[N cmp.Ordered](name string, value, least, most N) error {
	if value < least || value > most {
		return fmt.Errorf("%s is %v, but has to be from %v to %v", name, value, least, most)
	}
	return nil
}

// checkAddress refuses to serve strangers without protection, unless that is what the operator says.
func (s *Settings) checkAddress(name, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s is %q, but has to be host:port", name, address)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() || s.Insecure {
		return nil
	}
	if name == "admin" {
		return fmt.Errorf("admin is %q, which others can reach, and it asks for neither TLS nor tokens: take an "+
			"address of loopback, or say insecure", address)
	}
	if s.TLSCert == "" || s.TokenFile == "" && s.TLSClientCA == "" {
		return fmt.Errorf("%s is %q, which others can reach: set tls-cert, tls-key, and token-file or "+
			"tls-client-ca, or say insecure", name, address)
	}
	return nil
}

// checkHosts refuses what no client could call the service by.
func (s *Settings) checkHosts() error {
	for _, host := range s.HostList() {
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if host != "*" && ip == nil && strings.ContainsFunc(host, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(":/*@[]?#", r)
		}) {
			return fmt.Errorf("hosts has %q, but a host is a name or an address without a port, or * for all", host)
		}
	}
	return nil
}

// HostList returns the names by which clients may call the service, those of listen and admin among them.
func (s *Settings) HostList() []string {
	hosts := List(s.Hosts)
	for _, address := range []string{s.Listen, s.Admin} {
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// List returns the items of a setting that has several, with commas between them.
func List(text string) (items []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// NodeRange returns the node numbers that may be leased, and whether there is a limit.
func (s *Settings) NodeRange() (lo, hi int64, limited bool, err error) {
	if s.Nodes == "" {
		return 0, 0, false, nil
	}
	first, last, isRange := strings.Cut(s.Nodes, "-")
	if !isRange {
		last = first
	}
	lo, errLo := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	hi, errHi := strconv.ParseInt(strings.TrimSpace(last), 10, 64)
	if errLo != nil || errHi != nil || lo < 0 || hi < lo {
		return 0, 0, false, fmt.Errorf("nodes is %q, but has to be a number or a range such as 0-99", s.Nodes)
	}
	return lo, hi, true, nil
}

// LayoutOf returns the layout that the settings name.
func (s *Settings) LayoutOf() (generator.Layout, error) {
	preset, found := layouts.Named(s.Layout)
	if !found {
		return preset.Layout, fmt.Errorf("layout is %q, but has to be one of %s", s.Layout,
			strings.ToLower(strings.Join(layouts.Names(), ", ")))
	}
	return preset.Layout, nil
}

// SourceNames returns the names of all sources, that of the generator first.
func (s *Settings) SourceNames() []string {
	names := []string{reserved}
	for _, source := range s.Sources {
		names = append(names, source.Name)
	}
	return names
}

const usage = `snowflaked makes unique IDs for programs in every language.

  snowflaked                                     leases in snowflaked.db, for this machine only
  snowflaked --dsn postgres://host/database      any number of replicas on one database
  snowflaked --config snowflaked.yaml --check-config

A setting is taken from its flag, else from the environment variable SNOWFLAKED_NAME, else from the YAML
file, else it has its default. SIGTERM ends the service when all requests are answered. SIGHUP reads the
tokens, the certificate and the authorities of clients again.

`

// Print writes the settings and where each comes from. It never writes a secret.
func (s *Settings) Print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	s.set.VisitAll(func(f *flag.Flag) {
		value := f.Value.String()
		if slices.Contains(secrets(), f.Name) && value != "" && value != DefaultDSN {
			value = "(set)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Name, cmp.Or(value, "-"), cmp.Or(s.origins[f.Name], "default"))
	})
	return table.Flush()
}
