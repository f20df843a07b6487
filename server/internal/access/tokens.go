// Package access knows the tokens that clients show. It keeps only their hashes.
//
//	tokens, err := access.Load("tokens.txt")
//	name, ok := tokens.Check(shown)
package access

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"unicode"
)

// minToken is how long a token has to be. Sixteen random characters cannot be guessed over a network.
const minToken = 16

// Tokens is the set of valid tokens. The nil Tokens lets everybody in. Its methods are safe for
// concurrent use.
type Tokens struct {
	path string
	list atomic.Pointer[[]entry]
}

type entry struct {
	name string
	hash [sha256.Size]byte
}

// Load reads a token file, which may not be open to every user of the machine. Each line holds a name and a
// token with a blank between them; empty lines and lines that begin with # are ignored. The name appears in
// logs, the token never. Two lines may have one name, so a token is replaced without a gap: add the new one,
// move the clients, remove the old one.
func Load(path string) (*Tokens, error) {
	t := &Tokens{path: path}
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
	var list []entry
	scanner := bufio.NewScanner(file)
	for line := 1; scanner.Scan(); line++ {
		text := strings.TrimSpace(scanner.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		// No message repeats the line, because a part of it is a secret.
		fields := strings.Fields(text)
		switch {
		case len(fields) != 2:
			return fmt.Errorf("%s:%d: write a name and a token with a blank between them", t.path, line)
		case len(fields[1]) < minToken:
			return fmt.Errorf("%s:%d: a token has at least %d characters", t.path, line, minToken)
		case strings.ContainsFunc(text, unprintable):
			return fmt.Errorf("%s:%d: names and tokens are printable ASCII", t.path, line)
		}
		list = append(list, entry{fields[0], sha256.Sum256([]byte(fields[1]))})
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

// Check returns the name of a token, and whether it is valid. How long it takes does not depend on how
// much of the token is right.
func (t *Tokens) Check(token string) (name string, ok bool) {
	if t == nil {
		return "", true
	}
	hash := sha256.Sum256([]byte(token))
	for _, e := range *t.list.Load() {
		if subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1 {
			name, ok = e.name, true
		}
	}
	return name, ok
}

// Bearer returns the token of an Authorization header.
func Bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
