package dsn

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Secrets are passwords and the DSNs that contain them. A driver may repeat one in an error.
type Secrets []string

// SecretsOf finds the secrets of DSNs, as they are written there and with their escapes decoded.
func SecretsOf(dsns ...string) Secrets {
	var all Secrets
	for _, text := range dsns {
		if found := passwordsOf(text); len(found) > 0 {
			all = append(append(all, text), found...)
		}
	}
	// The longest come first, because a DSN has to be removed before the password that it contains.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}

func passwordsOf(dsn string) []string {
	var found []string
	add := func(password string, decoders ...func(string) (string, error)) {
		if password == "" {
			return
		}
		found = append(found, password)
		for _, decode := range decoders {
			if meant, err := decode(password); err == nil && meant != password && meant != "" {
				found = append(found, meant, url.QueryEscape(meant))
			}
		}
	}
	login, isURL := loginOf(dsn)
	authority, _, _ := strings.Cut(login, "/") // a path may contain @, and a password may contain /
	for _, part := range []string{login, authority} {
		if end := strings.LastIndex(part, "@"); end >= 0 {
			_, password, _ := strings.Cut(part[:end], ":")
			add(password, url.PathUnescape)
		}
	}
	setting := regexp.MustCompile(`(?is)password\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s\\]|\\.)+))`)
	for _, m := range setting.FindAllStringSubmatch(dsn, -1) {
		value := m[1] + m[2]
		if isURL {
			value, _, _ = strings.Cut(value, "&")
		}
		add(value, url.PathUnescape, url.QueryUnescape, func(quoted string) (string, error) {
			return regexp.MustCompile(`(?s)\\(.)`).ReplaceAllString(quoted, "$1"), nil
		})
	}
	return found
}

// loginOf is what follows the scheme of a URL. A password may contain "://", too.
func loginOf(dsn string) (login string, isURL bool) {
	if scheme := regexp.MustCompile(`^\w+://`).FindString(dsn); scheme != "" {
		return dsn[len(scheme):], true
	}
	return dsn, false
}

// Clean replaces the secrets in a text.
func (s Secrets) Clean(text string) string {
	// The driver of PostgreSQL quotes a DSN that it cannot read, with a mask instead of the password.
	text = regexp.MustCompile("(?s)cannot parse `.*`: ").ReplaceAllString(text, "the DSN cannot be read: ")
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "xxx")
	}
	return text
}

// Redact removes a DSN and its password from the message of a driver. What drivers make of a URL that they
// cannot parse holds parts of it, so then nothing of the message is kept.
func Redact(message, dsn string) string {
	if login, isURL := loginOf(dsn); isURL {
		if end := strings.LastIndex(login, "@"); end >= 0 {
			_, password, _ := strings.Cut(login[:end], ":")
			if _, err := url.PathUnescape(password); err != nil || strings.ContainsAny(password, "@/?#[] ") {
				return "the DSN cannot be understood: write special characters of the password as %40 and the like"
			}
		}
	}
	return SecretsOf(dsn).Clean(strings.ReplaceAll(message, dsn, "(dsn)"))
}
