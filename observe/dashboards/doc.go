// Package dashboards keeps a dashboard for Grafana and rules for the alerts of Prometheus, which read the
// metrics of package promobserve. Import grafana.json into Grafana, and name alerts.yml under rule_files
// of Prometheus. The package has no code: its tests run every query on real metrics of a plugin.
package dashboards
