package gormpool

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"gorm.io/gorm"
)

// trialTimeout is how long openEmbedded tries to use a connection of its own.
const trialTimeout = time.Second

// openEmbedded opens the store in a database of SQLite. If that is a file, the store opens it again
// for each request, so that it never meets a transaction that the application has left open on the
// only connection of its pool. A database in memory is shared, because another connection would be
// to another database. So is a file that only one connection can use, or that the DSN alone does not
// open; then every request makes sure that it is inside no transaction.
func openEmbedded[S any](
	ctx context.Context, db *gorm.DB, application *sql.DB,
	open func(ctx context.Context, pool *sql.DB, own bool) (S, error),
) (store S, pool *sql.DB, own bool, err error) {
	store, err = open(ctx, application, false)
	if err != nil {
		return store, nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	file, schema, err := fileOf(ctx, application)
	if err != nil || file == "" {
		return store, application, false, nil //nolint:nilerr // the store that there is does without a connection
	}
	separate := reopen(db.Dialector, func(_, dsn string) string { return located(dsn, file) })
	if separate == nil {
		return store, application, false, nil
	}
	// A table that somebody makes at this moment looks like another schema, which does no harm.
	if ownFile, ownSchema, err := fileOf(ctx, separate); err != nil || ownFile != file || ownSchema != schema {
		return store, application, false, separate.Close()
	}
	if other, err := dedicated(ctx, separate, open); err == nil {
		return other, separate, true, nil
	}
	return store, application, false, nil
}

// located puts the whole path of the file into a DSN whose path is relative, which would lead to another
// file after a change of directory.
func located(dsn, file string) string {
	path, query, found := strings.Cut(dsn, "?")
	if found {
		query = "?" + query
	}
	relative, isURI := strings.CutPrefix(path, "file:")
	if strings.HasPrefix(relative, "/") || filepath.IsAbs(relative) {
		return dsn
	}
	if !isURI {
		return file + query
	}
	file = filepath.ToSlash(file)
	if !strings.HasPrefix(file, "/") {
		file = "/" + file // a drive letter
	}
	return "file:" + (&url.URL{Path: file}).EscapedPath() + query
}

// fileOf returns the path of the file that a pool is on, and the version of the schema in there. The
// path is empty if another connection would not get to the same data, or not get to it at all.
func fileOf(ctx context.Context, pool *sql.DB) (path string, schema int64, err error) {
	var locking string
	for query, answer := range map[string]any{
		"SELECT file FROM pragma_database_list WHERE name = 'main'": &path,
		"PRAGMA main.locking_mode":                                  &locking,
		"PRAGMA main.schema_version":                                &schema,
	} {
		err = errors.Join(err, pool.QueryRowContext(ctx, query).Scan(answer))
	}
	if locking != "normal" {
		path = ""
	}
	return path, schema, err
}
