package settings

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

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
