package dashboards_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/observe/promobserve"
)

// A dashboard is the part of Grafana's format that has queries.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// variables are what Grafana puts into a query.
func variables() *strings.Replacer {
	return strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*")
}

func TestEveryPanelShowsSomething(t *testing.T) {
	t.Parallel()
	healthy := start(t, "a:9100")
	failing := start(t, "b:9100", snowflakeplugin.WithLease(nil, lease.WithSpan(200*time.Millisecond)))
	s := newServer(t)
	for i := range 10 {
		if err := healthy.db.Create(make([]order, 10)).Error; err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			lose(t, failing)
		}
		s.scrape(t, s.now.Add(time.Duration(i-9)*every), healthy, failing)
	}
	// Package promobserve has tests of the sources, and the service has tests of what only a server has.
	for name, more := range map[string][]string{
		"source_numbers_total": {"source", "orders"}, "source_left": {"source", "orders"},
		"source_lasts_seconds": {"source", "orders"}, "source_claims_total": {"source", "orders"},
		"source_claim_failures_total":            {"source", "orders"},
		"source_failing_since_timestamp_seconds": {"source", "orders"},
		"server_request_seconds_count":           {"protocol", "grpc", "code", "ok"},
		"server_request_seconds_bucket":          {"protocol", "grpc", "code", "ok", "le", "+Inf"},
		"server_ids_total":                       {"source", "orders", "client", "shop"},
		"server_connections":                     {"state", "idle"},
		"server_connections_ended_total":         {"state", "idle"},
	} {
		raise(t, s, "snowflake_"+name, func(i int) float64 { return float64(i) }, more...)
	}
	panels := readDashboard(t).Panels
	if len(panels) < 10 {
		t.Fatalf("the dashboard has %d panels", len(panels))
	}
	for _, panel := range panels {
		for _, target := range panel.Targets {
			if got := s.ask(t, variables().Replace(target.Expr)); len(got) == 0 {
				t.Errorf("panel %q shows nothing: %s", panel.Title, target.Expr)
			}
		}
	}
	for query, want := range map[string]float64{
		panels[0].Targets[0].Expr: 1, // of the two processes one can make IDs
		panels[1].Targets[0].Expr: 1,
	} {
		if got := s.ask(t, variables().Replace(query)); len(got) != 1 || got[0].F != want {
			t.Errorf("%s is %v, want %v", query, got, want)
		}
	}
}

// lose takes the leases of a process away and waits until it has noticed.
func lose(t *testing.T, p process) {
	t.Helper()
	if err := p.db.Migrator().DropTable("snowflake_nodes"); err != nil {
		t.Fatal(err)
	}
	// On a busy machine the window can end before the store is asked for the next one and fails.
	for health := p.plugin.Health(t.Context()); health.Ready || health.FailingSince.IsZero(); {
		time.Sleep(time.Millisecond)
		health = p.plugin.Health(t.Context())
	}
}

// contest has a row of somebody else refuse the key that was made for a new one.
func contest(t *testing.T, p process) {
	t.Helper()
	err := p.db.Callback().Create().After("snowflake:fill").Before("gorm:begin_transaction").Register("stranger",
		func(tx *gorm.DB) {
			row, _ := tx.Statement.Dest.(*order)
			other := tx.Session(&gorm.Session{NewDB: true})
			_ = tx.AddError(other.Exec("INSERT INTO orders (id, total) VALUES (?, ?)", row.ID, row.Total+1).Error)
		})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.db.Create(&order{Total: 1}).Error; !errors.Is(err, snowflakeplugin.ErrContested) {
		t.Fatalf("the error of the create is %v", err)
	}
}

// A query with a name that no metric has shows nothing for ever, and an alert of that kind is never heard.
func TestEveryQueryReadsMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	out := make(chan *prometheus.Desc, 100)
	promobserve.New(snowflakeplugin.New()).Describe(out)
	close(out)
	for desc := range out {
		_, rest, _ := strings.Cut(desc.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		known[name] = true
	}
	shown := map[string]bool{}
	check := func(where, query string) {
		expr, err := parser.ParseExpr(variables().Replace(query))
		if err != nil {
			t.Errorf("%s: %v", where, err)
			return
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				shown[selector.Name] = true
				// The tests of the service check the names that only the service has.
				if !known[selector.Name] && !strings.HasPrefix(selector.Name, "snowflake_server_") {
					t.Errorf("%s: there is no metric %s", where, selector.Name)
				}
			}
			return nil
		})
	}
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			check("panel "+panel.Title, target.Expr)
		}
	}
	for name := range known {
		if !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
	for _, rule := range readRules(t) {
		check("alert "+rule.Alert, rule.Expr)
	}
}

func TestNoPanelCoversAnother(t *testing.T) {
	t.Parallel()
	cells := map[[2]int]string{}
	ids := map[int]bool{}
	for _, panel := range readDashboard(t).Panels {
		if ids[panel.ID] {
			t.Errorf("the number %d is taken twice", panel.ID)
		}
		ids[panel.ID] = true
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%q lies on %q, or outside, at %d,%d", panel.Title, other, x, y)
				}
				cells[[2]int{x, y}] = panel.Title
			}
		}
	}
}

func readRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, faults := rulefmt.ParseFile("alerts.yml", false)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var rules []rulefmt.Rule
	for _, group := range groups.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules
}

// raise stores a metric as a process in trouble would have it, where the trouble cannot be caused. More are
// further labels.
func raise(t *testing.T, s *server, name string, value func(i int) float64, more ...string) {
	t.Helper()
	appender := s.storage.Appender(t.Context())
	for i := range 10 {
		at := s.now.Add(time.Duration(i-9) * every)
		series := labels.FromStrings(append(more, model.MetricNameLabel, name, "job", "shop", "instance", "c:9100")...)
		if _, err := appender.Append(0, series, at.UnixMilli(), value(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := appender.Commit(); err != nil {
		t.Fatal(err)
	}
}

// Each alert is silent for healthy processes, and is heard in the trouble that it is for.
func TestEveryAlertIsHeardInItsTroubleOnly(t *testing.T) {
	t.Parallel()
	scrapes := func(t *testing.T, s *server, processes ...process) {
		t.Helper()
		for i := range 10 {
			s.scrape(t, s.now.Add(time.Duration(i-9)*every), processes...)
		}
	}
	troubles := map[string]func(t *testing.T, s *server){
		"SnowflakeCannotMakeIDs": func(t *testing.T, s *server) {
			p := start(t, "b:9100", snowflakeplugin.WithLease(nil, lease.WithSpan(200*time.Millisecond)))
			lose(t, p)
			scrapes(t, s, p)
		},
		"SnowflakeStoreFails": func(t *testing.T, s *server) {
			p := start(t, "b:9100", snowflakeplugin.WithLease(nil, lease.WithSpan(200*time.Millisecond)))
			lose(t, p)
			s.now = s.now.Add(time.Minute)
			scrapes(t, s, p)
		},
		"SnowflakeNodeTwice": func(t *testing.T, s *server) {
			scrapes(t, s, start(t, "b:9100", snowflakeplugin.WithNode(7)),
				start(t, "c:9100", snowflakeplugin.WithNode(7)), start(t, "d:9100", snowflakeplugin.WithNode(8)))
		},
		"SnowflakeContested": func(t *testing.T, s *server) {
			p := start(t, "b:9100", snowflakeplugin.WithNode(7))
			contest(t, p)
			scrapes(t, s, p)
		},
		"SnowflakeClockStepsBack": func(t *testing.T, s *server) {
			raise(t, s, "snowflake_clock_steps_total", func(i int) float64 { return float64(i / 5) })
		},
		"SnowflakeCreatesWait": func(t *testing.T, s *server) {
			raise(t, s, "snowflake_waited_seconds_total", func(i int) float64 { return 12 * float64(i) })
		},
		"SnowflakeSourceFails": func(t *testing.T, s *server) {
			since := float64(s.now.Add(-time.Minute).Unix())
			raise(t, s, "snowflake_source_failing_since_timestamp_seconds", func(int) float64 { return since }, "source", "orders")
		},
		"SnowflakeServerNotReady": func(t *testing.T, s *server) {
			raise(t, s, "snowflake_ready", func(int) float64 { return 0 })
			raise(t, s, "snowflake_server_connections", func(int) float64 { return 3 }, "state", "idle")
		},
		"SnowflakeServerFull": func(t *testing.T, s *server) {
			raise(t, s, "snowflake_server_connections_ended_total", func(i int) float64 { return float64(i) }, "state", "idle")
		},
		"SnowflakeLayoutEnds": func(t *testing.T, s *server) {
			end := float64(s.now.AddDate(4, 0, 0).Unix())
			raise(t, s, "snowflake_layout_end_timestamp_seconds", func(int) float64 { return end })
		},
	}
	rules := readRules(t)
	for _, rule := range rules {
		t.Run(rule.Alert, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			scrapes(t, s, start(t, "a:9100"), start(t, "h:9100", snowflakeplugin.WithNode(9)))
			if got := s.ask(t, rule.Expr); len(got) > 0 {
				t.Errorf("it is heard while all is well: %v", got)
			}
			cause := troubles[rule.Alert]
			if cause == nil {
				t.Fatal("the test does not know how to cause its trouble")
			}
			ill := newServer(t)
			cause(t, ill)
			if got := ill.ask(t, rule.Expr); len(got) == 0 {
				t.Error("it is not heard in its trouble")
			}
			for _, name := range []string{"summary", "description", "runbook_url"} {
				if rule.Annotations[name] == "" {
					t.Errorf("it has no %s", name)
				}
			}
			linksToPage(t, rule.Annotations["runbook_url"])
		})
	}
	if len(rules) != len(troubles) {
		t.Errorf("there are %d alerts, and the test causes %d troubles", len(rules), len(troubles))
	}
}

// linksToPage checks that the remedy is written where the alert says.
func linksToPage(t *testing.T, url string) {
	t.Helper()
	_, file, ok := strings.Cut(url, "/blob/main/")
	if !ok {
		t.Fatalf("%q is no page of this repository", url)
	}
	file, anchor, _ := strings.Cut(file, "#")
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	if anchor == "" {
		return
	}
	for line := range strings.Lines(string(text)) {
		mark, heading, _ := strings.Cut(strings.TrimSpace(line), " ")
		if mark != "" && strings.Trim(mark, "#") == "" && strings.ReplaceAll(strings.ToLower(heading), " ", "-") == anchor {
			return
		}
	}
	t.Errorf("%s has no heading %q", file, anchor)
}
