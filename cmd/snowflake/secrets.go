package main

import (
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// secrets are the passwords of a plan and the DSNs that contain them. Package merge does not print them, but
// a driver may repeat one in an error.
type secrets []string

func secretsOf(plan *merge.Plan) secrets {
	dsns := []string{plan.Target.DSN}
	for _, s := range plan.Servers {
		dsns = append(dsns, s.DSN)
	}
	var all secrets
	for _, dsn := range dsns {
		if name, ok := strings.CutPrefix(dsn, "$"); ok {
			dsn = os.Getenv(strings.Trim(name, "{}"))
		}
		if found := passwordsOf(dsn); len(found) > 0 {
			all = append(append(all, dsn), found...)
		}
	}
	// The longest come first, because a DSN has to be removed before the password that it contains.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}

// passwordsOf finds the password of a DSN, as it is written there and with its escapes decoded.
func passwordsOf(dsn string) []string {
	var found []string
	add := func(password string) {
		if password == "" {
			return
		}
		found = append(found, password)
		if meant, err := url.PathUnescape(password); err == nil && meant != password {
			found = append(found, meant)
		}
	}
	login := dsn
	if _, rest, ok := strings.Cut(dsn, "://"); ok {
		login = rest
	}
	authority, _, _ := strings.Cut(login, "/") // a path may contain @, and a password may contain /
	for _, part := range []string{login, authority} {
		if at := strings.LastIndex(part, "@"); at >= 0 {
			_, password, _ := strings.Cut(part[:at], ":")
			add(password)
		}
	}
	setting := regexp.MustCompile(`(?i)password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)`)
	for _, m := range setting.FindAllStringSubmatch(dsn, -1) {
		add(strings.Trim(m[1], "'"))
	}
	return found
}

// clean replaces the secrets in a text.
func (s secrets) clean(text string) string {
	// The driver of PostgreSQL quotes a DSN that it cannot read, with a mask instead of the password.
	text = regexp.MustCompile("(?s)cannot parse `.*`: ").ReplaceAllString(text, "the DSN cannot be read: ")
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "xxx")
	}
	return text
}

// hidden is an error with a text of its own.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

// hide replaces the secrets in the text of an error.
func (s secrets) hide(err error) error {
	if text := s.clean(err.Error()); text != err.Error() {
		return &hidden{text, err}
	}
	return err
}

// writer replaces the secrets in what a logger writes, line by line.
func (s secrets) writer(w io.Writer) io.Writer { return cleaner{s, w} }

type cleaner struct {
	secrets
	to io.Writer
}

func (c cleaner) Write(line []byte) (int, error) {
	if _, err := io.WriteString(c.to, c.clean(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}
