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

// secrets are the passwords of a plan, and the DSNs that hold them. The library keeps them out of what it
// says; a driver may still repeat one in an error that comes in the middle of the work.
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
	// The longest first: a DSN has to go as a whole before the password in it does.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}

// passwordsOf finds the password of a DSN as it stands there, and as it is meant.
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
	authority, _, _ := strings.Cut(login, "/") // what follows may have an @ too, as a password may have a /
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

// clean takes the secrets out of a text.
func (s secrets) clean(text string) string {
	// The driver of PostgreSQL repeats a DSN that it cannot read, with another password.
	text = regexp.MustCompile("(?s)cannot parse `.*`: ").ReplaceAllString(text, "the DSN cannot be read: ")
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "xxx")
	}
	return text
}

// hidden is an error whose text is another one.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

// hide takes the secrets out of what an error says.
func (s secrets) hide(err error) error {
	if text := s.clean(err.Error()); text != err.Error() {
		return &hidden{text, err}
	}
	return err
}

// writer takes them out of what a logger writes, a line at a time.
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
