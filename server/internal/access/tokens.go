// Package access knows the tokens that clients show, and which sources each of them opens. It keeps only the
// hashes of the tokens.
//
//	tokens, err := access.Load("tokens.txt", []string{"snowflake", "invoice"})
//	token, ok := tokens.Check(shown)
package access

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
)

// minToken is how long a token has to be. Sixteen random characters cannot be guessed over a network.
const minToken = 16

// Tokens is the set of valid tokens. The nil Tokens lets everybody in. Its methods are safe for
// concurrent use.
type Tokens struct {
	path    string
	sources []string // all that there are
	list    atomic.Pointer[[]*Token]
}

// Token is a line of the token file. The nil Token is that of a client where no token is required: it has no
// name and opens every source.
type Token struct {
	name    string
	hash    [sha256.Size]byte
	sources []string // nil for all
}

// Name is the name of the client, for logs and metrics.
func (t *Token) Name() string {
	if t == nil {
		return ""
	}
	return t.name
}

// Opens says whether the client may have IDs of a source.
func (t *Token) Opens(source string) bool {
	return t == nil || t.sources == nil || slices.Contains(t.sources, source)
}

// Load reads a token file, which may not be open to every user of the machine. Each line holds a name and a
// token with a blank between them, and, after another blank, the sources that the token opens, joined by
// commas; without them it opens all. Empty lines and lines that begin with # are ignored. The name appears in
// logs and metrics, the token never. Two lines may have one name, so a token is replaced without a gap: add
// the new one, move the clients, remove the old one. Sources are the names of all sources; any other name is
// an error.
func Load(path string, sources []string) (*Tokens, error) {
	t := &Tokens{path: path, sources: sources}
	return t, t.Reload()
}

// Reload reads the file again. After an error the tokens remain as they were.
func (t *Tokens) Reload() error {
	if t == nil {
		return nil
	}
	file, err := os.Open(t.path)
	if err != nil {
		return fmt.Errorf("the token file cannot be read: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	if err := private(file); err != nil {
		return err
	}
	var list []*Token
	scanner := bufio.NewScanner(file)
	for line := 1; scanner.Scan(); line++ {
		text := strings.TrimSpace(scanner.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		// No message repeats the line, because a part of it is a secret.
		fields := strings.Fields(text)
		switch {
		case len(fields) != 2 && len(fields) != 3:
			return fmt.Errorf("%s:%d: write a name, a token and, if it does not open all sources, those that it "+
				"opens, joined by commas, with a blank between them", t.path, line)
		case len(fields[1]) < minToken:
			return fmt.Errorf("%s:%d: a token has at least %d characters", t.path, line, minToken)
		case strings.ContainsFunc(text, unprintable):
			return fmt.Errorf("%s:%d: names and tokens are printable ASCII", t.path, line)
		}
		token := &Token{name: fields[0], hash: sha256.Sum256([]byte(fields[1]))}
		if len(fields) == 3 { //nolint:mnd // a name, a token, and its sources
			token.sources = strings.Split(fields[2], ",")
		}
		for _, source := range token.sources {
			if !slices.Contains(t.sources, source) {
				return fmt.Errorf("%s:%d: %s may have IDs of %q, but the sources are %s", t.path, line, token.name,
					source, strings.Join(t.sources, ", "))
			}
		}
		list = append(list, token)
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("the token file cannot be read: %w", err)
	}
	if len(list) == 0 {
		return errors.New(t.path + " holds no token, so nobody could ask for an ID")
	}
	t.list.Store(&list)
	return nil
}

// private refuses a file that every user of the machine may read or write.
func private(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("the token file cannot be read: %w", err)
	}
	const others = 0o006
	if runtime.GOOS != "windows" && info.Mode().Perm()&others != 0 { // Windows has no such bits
		return fmt.Errorf("every user of this machine may read or write the token file %s, whose mode is %04o: "+
			"chmod o-rw", file.Name(), info.Mode().Perm())
	}
	return nil
}

func unprintable(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) && r != '\t' }

// Required says whether a client has to show a token.
func (t *Tokens) Required() bool { return t != nil }

// Check says whether what a client has shown is a token, and which one. How long it takes does not depend on
// how much of it is right.
func (t *Tokens) Check(shown string) (token *Token, ok bool) {
	if t == nil {
		return nil, true
	}
	hash := sha256.Sum256([]byte(shown))
	for _, one := range *t.list.Load() {
		if subtle.ConstantTimeCompare(hash[:], one.hash[:]) == 1 {
			token, ok = one, true
		}
	}
	return token, ok
}

// Bearer returns the token of an Authorization header.
func Bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
