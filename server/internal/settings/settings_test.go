package settings_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/settings"
)

func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every setting is tried, so one that is declared later keeps the rule as well.
// The deployment is not started here, but a flag that is renamed must not stay behind in it.
func TestTheDeploymentForKubernetesHasSettingsThatAreRight(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct{ Args []string }
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &deployment); err != nil { // the first document
		t.Fatal(err)
	}
	secret := t.TempDir()
	if err := os.WriteFile(filepath.Join(secret, "dsn"), []byte("sqlite:ids.db"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := deployment.Spec.Template.Spec.Containers[0].Args
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "/secret", secret)
	}
	s, err := settings.Load(args, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.Insecure || s.TokenFile == "" || s.TLSCert == "" || s.DrainDelay == 0 {
		t.Errorf("the deployment has no tokens, no TLS or no delay: %+v", s)
	}
}

func TestAFlagIsBeforeTheEnvironmentAndThatBeforeTheFile(t *testing.T) {
	t.Parallel()
	file := write(t, "max-count: 1\nidle: 1s\ntable: from_file\nlog-level: warn\norigins: [https://a, https://b]\n")
	environ := []string{"SNOWFLAKED_MAX_COUNT=2", "SNOWFLAKED_IDLE=2s", "SNOWFLAKED_CONFIG=" + file, "OTHER=1"}
	// The last value is also the name of a flag.
	s, err := settings.Load([]string{"--max-count=3", "--drain", "3s", "--hosts", "drain"}, environ, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.MaxCount != 3 || s.Idle != 2*time.Second || s.Table != "from_file" || s.MaxBody != 16<<10 ||
		s.LogLevel.String() != "WARN" || s.Origins != "https://a,https://b" {
		t.Errorf("the settings are %+v", s)
	}
	var shown bytes.Buffer
	if err := s.Print(&shown); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"max-count": "3 flag", "idle": "2s environment", "table": "from_file file", "max-body": "16384 default",
		"drain": "3s flag",
	} {
		found := false
		for line := range strings.Lines(shown.String()) {
			fields := strings.Fields(line)
			found = found || fields[0] == name && strings.Join(fields[1:], " ") == want
		}
		if !found {
			t.Errorf("%s is not shown as %s in\n%s", name, want, &shown)
		}
	}
}

func TestWhatIsWrongIsSaidAndNoSecretIsShown(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-password"
	for name, c := range map[string]struct {
		args, environ []string
		file          string
		want          string
	}{
		"an unknown setting in the file":      {file: "max-cuont: 5", want: `:1: "max-cuont" is no setting`},
		"an unknown variable":                 {environ: []string{"SNOWFLAKED_MAX_CUONT=5"}, want: "SNOWFLAKED_MAX_CUONT is no setting"},
		"a setting that is there twice":       {file: "idle: 1s\nidle: 2s", want: "idle"},
		"a value of another kind":             {file: "max-count: many", want: ":1: max-count:"},
		"a mapping as a value":                {file: "max-count: {a: b}", want: "max-count has to be a plain value"},
		"no mapping":                          {file: "- a", want: "name: value"},
		"no YAML":                             {file: "a: [", want: "is not YAML"},
		"a file that names a file":            {file: "config: other", want: `"config" is no setting`},
		"an argument":                         {args: []string{"start"}, want: `"start" is not expected`},
		"a limit":                             {args: []string{"--max-count", "0"}, want: "max-count is 0"},
		"a negative time":                     {args: []string{"--drain", "-1s"}, want: "drain is -1s"},
		"an address without a port":           {args: []string{"--listen", "localhost"}, want: "host:port"},
		"all addresses":                       {args: []string{"--listen", ":7070"}, want: "which others can reach"},
		"another address":                     {args: []string{"--resp", "10.0.0.1:1"}, want: "which others can reach"},
		"TLS without tokens":                  {args: []string{"--listen", ":7070", "--tls-cert", "a", "--tls-key", "b"}, want: "token-file"},
		"tokens without TLS":                  {args: []string{"--listen", ":7070", "--token-file", "a"}, want: "tls-cert"},
		"authorities without a certificate":   {args: []string{"--tls-client-ca", "a"}, want: "needs tls-cert"},
		"a certificate without its key":       {args: []string{"--tls-cert", "a"}, want: "belong together"},
		"a layout":                            {args: []string{"--layout", "mine"}, want: "has to be one of default, twitter"},
		"a host with a port":                  {args: []string{"--hosts", "ids.example:7070"}, want: `hosts has "ids.example:7070"`},
		"a host that is an address of a page": {args: []string{"--hosts", "a,https://ids.example"}, want: "without a port"},
		"hosts by a pattern":                  {args: []string{"--hosts", "*.example"}, want: "or * for all"},
		"nodes":                               {args: []string{"--nodes", "9-1"}, want: "0-99"},
		"two DSNs":                            {args: []string{"--dsn", secret, "--dsn-file", "x"}, want: "exclude each other"},
		"a file of a DSN that is not here":    {args: []string{"--dsn-file", "/nowhere"}, want: "dsn-file cannot be read"},
		"a log format":                        {args: []string{"--log-format", "xml"}, want: "json or text"},
		"a source without a kind":             {file: "sources: {a: {digits: 2}}", want: "the kind is"},
		"a source of the generator's name":    {file: "sources: {snowflake: {kind: segment}}", want: "a name has letters"},
		"a zone":                              {file: "sources: {a: {kind: daily, digits: 2, zone: Mars/Base}}", want: "the zone"},
		"a field of another kind":             {file: "sources: {a: {kind: segment, digits: 2}}", want: "digits and zone"},
		"a field that is unknown":             {file: "sources: {a: {kind: segment, setp: 2}}", want: "setp"},
		"tickets without servers":             {file: "sources: {a: {kind: tickets}}", want: "servers are needed"},
		"a server without a DSN":              {file: "sources: {a: {kind: tickets, servers: [{}]}}", want: "server 0 needs a dsn"},
		"two kinds on one counter": {
			file: "sources: {a: {kind: segment, counter: c}, c: {kind: daily, digits: 2, zone: UTC}}",
			want: `the source "c" is of the kind daily and has the counter "c", which the source "a" of the kind segment`,
		},
		"a DSN where none belongs": {file: "sources: {a: {kind: segment, dsn: " + secret + "}}", want: "a field is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := c.args
			if c.file != "" {
				args = append(args, "--config", write(t, c.file))
			}
			var output bytes.Buffer
			_, err := settings.Load(args, c.environ, &output)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one that says %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) || output.Len() > 0 {
				t.Errorf("the error has the DSN, or something was printed: %v %s", err, &output)
			}
		})
	}
}

func TestOthersMayReachTheServiceIfItIsProtectedOrTheWordIsSaid(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--listen", ":7070", "--insecure"},
		{"--listen", "0.0.0.0:7070", "--tls-cert", "a", "--tls-key", "b", "--token-file", "c"},
		{"--listen", "0.0.0.0:7070", "--tls-cert", "a", "--tls-key", "b", "--tls-client-ca", "c"},
		{"--listen", "[::1]:7070", "--resp", "localhost:1"},
		{"--resp", "off"},
	} {
		if _, err := settings.Load(args, nil, io.Discard); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestADSNIsNeverShown(t *testing.T) {
	t.Parallel()
	const secret = "postgres://user:hunter2@host/database"
	for _, args := range [][]string{{"--dsn", secret}, {"--dsn-file", write(t, secret+"\n")}} {
		s, err := settings.Load(args, nil, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if s.DSN != secret {
			t.Errorf("%q: the DSN is another one", args[0])
		}
		var shown bytes.Buffer
		if err := s.Print(&shown); err != nil || strings.Contains(shown.String(), "hunter2") ||
			!strings.Contains(shown.String(), "(set)") {
			t.Errorf("%v: %s", err, &shown)
		}
	}
}

func TestTheHelpNamesEverySetting(t *testing.T) {
	t.Parallel()
	var output bytes.Buffer
	if _, err := settings.Load([]string{"--help"}, nil, &output); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, name := range []string{"-listen", "-dsn-file", "-check-config", "-drain-delay", "SNOWFLAKED_NAME"} {
		if !strings.Contains(output.String(), name) {
			t.Errorf("the help lacks %s", name)
		}
	}
}
