package main

import (
	"os"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dsn"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// secretsOf finds the secrets of a plan. Package merge does not print them, but a driver may repeat one in an
// error.
func secretsOf(plan *merge.Plan) dsn.Secrets {
	all := []string{plan.Target.DSN}
	for _, s := range plan.Servers {
		all = append(all, s.DSN)
	}
	for i, one := range all {
		if name, ok := strings.CutPrefix(one, "$"); ok {
			all[i] = os.Getenv(strings.Trim(name, "{}"))
		}
	}
	return dsn.SecretsOf(all...)
}

// hidden is an error with a text of its own.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }
