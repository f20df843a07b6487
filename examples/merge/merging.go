package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
)

//go:embed plan.yaml
var planFile []byte

// story is what happened.
type story struct {
	realms [servers]realm
	plan   *merge.Plan
	filled time.Duration

	check  *merge.CheckReport
	run    *merge.RunReport
	verify *merge.VerifyReport
	again  *merge.RunReport // of running once more
	seen
}

func play(ctx context.Context, dir string) (*story, error) {
	s, err := prepare(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := s.merge(ctx); err != nil {
		return nil, err
	}
	return s, s.look(ctx, s.plan.Target.DSN)
}

func prepare(ctx context.Context, dir string) (*story, error) {
	began := time.Now()
	realms, err := fillServers(ctx, dir)
	if err != nil {
		return nil, err
	}
	s := &story{realms: realms, filled: time.Since(began)}
	target, err := makeTarget(ctx, dir)
	if err != nil {
		return nil, err
	}
	if s.plan, err = merge.Parse(planFile); err != nil {
		return nil, err
	}
	// A plan of yours names environment variables; this one cannot know the directory.
	for i := range s.plan.Servers {
		s.plan.Servers[i].DSN = realms[i].path
	}
	s.plan.Target.DSN = target
	return s, nil
}

// open opens all databases of the plan, the servers' read-only.
func (s *story) open(ctx context.Context) (*merge.Merge, error) {
	return merge.Open(ctx, s.plan, merge.WithOpener(func(_ context.Context, dsn string) (*sql.DB, error) {
		return sql.Open("sqlite3", dsn)
	}))
}

func (s *story) merge(ctx context.Context) (err error) {
	m, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()

	if s.check, err = m.Check(ctx); err != nil {
		return err // it could not look; what it found is in the report
	}
	if s.run, err = m.Run(ctx); err != nil {
		return err // merge.ErrUndecided, if the verdict was merge.Undecided
	}
	if s.verify, err = m.Verify(ctx); err != nil {
		return err
	}
	s.again, err = m.Run(ctx)
	return err
}

// seen is what anybody can see in the files afterwards.
type seen struct {
	names   []nameStory
	letters int // of renamed roles, which carry the new name
	logins  [servers]move
	touched int // files of servers that are not what they were
}

// nameStory is a nickname that every server had.
type nameStory struct {
	like  gameworld.Likeness
	roles [servers]struct {
		ID            int64
		before, after string
		level         int
	}
}

// move is what became of keys that were counted: they went up by so much.
type move struct{ rows, by int64 }

func (s *story) look(ctx context.Context, target string) (err error) {
	db, err := sql.Open("sqlite3", "file:"+target+"?mode=ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for i, r := range s.realms {
		sum, err := sumOf(r.path)
		if err != nil {
			return err
		}
		if sum != r.sum {
			s.touched++
		}
		if err := s.lookAt(ctx, db, i); err != nil {
			return err
		}
	}
	return db.QueryRowContext(ctx, `SELECT COUNT(*) FROM mail JOIN merge_renames
		ON tbl = 'roles' AND row_key = CAST(from_id AS TEXT) AND from_name = new_name`).Scan(&s.letters)
}

// lookAt follows rows of one server to the target. Roles are found there by the keys that they always had.
func (s *story) lookAt(ctx context.Context, target *sql.DB, server int) (err error) {
	source, err := sql.Open("sqlite3", "file:"+s.realms[server].path+"?mode=ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	for n := range 5 {
		name, like := gameworld.Nickname(s.realms[server].Server, n)
		if server == 0 {
			s.names = append(s.names, nameStory{like: like})
		}
		r := &s.names[n].roles[server]
		err := source.QueryRowContext(ctx, "SELECT id, nickname, level FROM roles WHERE nickname = ?", name).
			Scan(&r.ID, &r.before, &r.level)
		if err != nil {
			return err
		}
		err = target.QueryRowContext(ctx, "SELECT nickname FROM roles WHERE id = ?", r.ID).Scan(&r.after)
		if err != nil {
			return err
		}
	}
	var first, now int64
	l := &s.logins[server]
	err = source.QueryRowContext(ctx, "SELECT COUNT(*), MIN(id) FROM login_log").Scan(&l.rows, &first)
	if err != nil {
		return err
	}
	err = target.QueryRowContext(ctx, `SELECT MIN(login_log.id) FROM login_log JOIN roles ON roles.id = role_id
		WHERE (role_id >> 10) & 1048575 = ?`, s.realms[server].Server).Scan(&now)
	l.by = now - first
	return err
}
