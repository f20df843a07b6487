package redislease

import (
	"context"
	"crypto/rand"
	_ "embed" // the script
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

//go:embed identity.lua
var identityScript string

var _ lease.Identifier = (*Store)(nil)

// Identity returns the random identity of the records under the prefix. It is the text at the key
// prefix + "identity", which the first call sets. If Redis loses it, it has probably lost records too:
// then there is another identity, and databases that have noted the first one refuse the store.
func (s *Store) Identity(ctx context.Context) (lease.Identity, error) {
	beside := &Store{client: s.client, strict: s.strict, log: s.log}
	beside.key = strings.TrimSuffix(s.key, "nodes") + "identity"
	answer, err := beside.write(ctx, again, identityScript, rand.Text())
	if err != nil {
		return lease.Identity{}, err
	}
	if len(answer) != 1 {
		return lease.Identity{}, beside.unexpected(answer)
	}
	return lease.Identity{ID: answer[0], Place: "hash " + s.key + " in Redis"}, nil
}
