package zklease

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Option changes what [New] does by default. The options of this package are the only ones.
type Option interface{ apply(*Store) error }

type option func(*Store) error

func (o option) apply(s *Store) error { return o(s) }

// WithACL tells the store whom to give which rights to the znodes that it makes. The processes that
// use the store need those to read, to write and to create. The rights of znodes that exist stay
// as they are.
//
// By default, everybody has all rights, as zk.WorldACL(zk.PermAll) says. No entry is an error.
func WithACL(entries ...zk.ACL) Option {
	return option(func(s *Store) error {
		if len(entries) == 0 {
			return errors.New("WithACL needs at least one entry, or nobody could read what is written")
		}
		s.acl = slices.Clone(entries)
		return nil
	})
}

func (s *Store) configure(options []Option) error {
	var faults []error
	for _, o := range options {
		if o == nil {
			faults = append(faults, errors.New("an option is nil"))
			continue
		}
		if err := o.apply(s); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: zklease: %w", lease.ErrInvalidOption, errors.Join(faults...))
	}
	return nil
}

// checkPath returns an error unless path is one that znodes may lie under.
func checkPath(path string) error {
	wrong := func(what string) error {
		return fmt.Errorf("%w: zklease: the path %q %s; name one like \"/snowflake\"",
			lease.ErrInvalidOption, path, what)
	}
	rest, absolute := strings.CutPrefix(path, "/")
	if !absolute {
		return wrong("does not begin with a slash")
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || part == "." || part == ".." {
			return wrong("has an empty or a relative part")
		}
		if strings.ContainsFunc(part, forbidden) {
			return wrong("has a character that ZooKeeper does not take")
		}
	}
	return nil
}

// forbidden tells whether ZooKeeper refuses a character in a path.
func forbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
