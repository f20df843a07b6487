package policy_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/migrate"
	"github.com/snowflakeplugin/snowflakeplugin/opaque"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/sqlsegment"
)

// sentinels lists every sentinel of the module and whether it is retryable by itself.
func sentinels() map[string]struct {
	err       error
	retryable bool
} {
	type entry = struct {
		err       error
		retryable bool
	}
	return map[string]entry{
		"snowflakeplugin.ErrNoNode":       {snowflakeplugin.ErrNoNode, false},
		"snowflakeplugin.ErrAuthority":    {snowflakeplugin.ErrAuthority, false},
		"snowflakeplugin.ErrOptions":      {snowflakeplugin.ErrOptions, false},
		"snowflakeplugin.ErrCallbacks":    {snowflakeplugin.ErrCallbacks, false},
		"snowflakeplugin.ErrInvalidField": {snowflakeplugin.ErrInvalidField, false},
		"snowflakeplugin.ErrInvalidID":    {snowflakeplugin.ErrInvalidID, false},
		"snowflakeplugin.ErrNotInUse":     {snowflakeplugin.ErrNotInUse, false},
		"snowflakeplugin.ErrSource":       {snowflakeplugin.ErrSource, false},
		"snowflakeplugin.ErrUnavailable":  {snowflakeplugin.ErrUnavailable, true},
		"snowflakeplugin.ErrZeroKey":      {snowflakeplugin.ErrZeroKey, false},
		"snowflakeplugin.ErrContested":    {snowflakeplugin.ErrContested, false},
		"snowflakeplugin.ErrNoParent":     {snowflakeplugin.ErrNoParent, false},
		"snowflakeplugin.ErrSharding":     {snowflakeplugin.ErrSharding, false},
		"snowflakeplugin.ErrNotSharded":   {snowflakeplugin.ErrNotSharded, false},
		"snowflakeplugin.ErrNotRouted":    {snowflakeplugin.ErrNotRouted, false},
		"snowflakeplugin.ErrShardMap":     {snowflakeplugin.ErrShardMap, false},
		"snowflakeplugin.ErrCrossShard":   {snowflakeplugin.ErrCrossShard, false},
		"snowflakeplugin.ErrClosed":       {snowflakeplugin.ErrClosed, false},
		"generator.ErrInvalidLayout":      {generator.ErrInvalidLayout, false},
		"generator.ErrInvalidOption":      {generator.ErrInvalidOption, false},
		"generator.ErrNodeRange":          {generator.ErrNodeRange, false},
		"generator.ErrSequenceRange":      {generator.ErrSequenceRange, false},
		"generator.ErrBeforeEpoch":        {generator.ErrBeforeEpoch, false},
		"generator.ErrTimeExhausted":      {generator.ErrTimeExhausted, false},
		"generator.ErrInvalidID":          {generator.ErrInvalidID, false},
		"generator.ErrClockBehind":        {generator.ErrClockBehind, true},
		"generator.ErrOutsideWindow":      {generator.ErrOutsideWindow, true},
		"generator.ErrTenureTaken":        {generator.ErrTenureTaken, false},
		"generator.ErrSealed":             {generator.ErrSealed, false},
		"generator.ErrCanceled":           {generator.ErrCanceled, false},
		"lease.ErrNoFreeNode":             {lease.ErrNoFreeNode, true},
		"lease.ErrNodeHeld":               {lease.ErrNodeHeld, true},
		"lease.ErrTenureTaken":            {lease.ErrTenureTaken, false},
		"lease.ErrClockSkew":              {lease.ErrClockSkew, true},
		"lease.ErrLayoutMismatch":         {lease.ErrLayoutMismatch, false},
		"lease.ErrInvalidRecord":          {lease.ErrInvalidRecord, false},
		"lease.ErrInvalidOption":          {lease.ErrInvalidOption, false},
		"lease.ErrStore":                  {lease.ErrStore, true},
		"lease.ErrClosed":                 {lease.ErrClosed, false},
		"gormlease.ErrTable":              {gormlease.ErrTable, false},
		"gormlease.ErrDatabase":           {gormlease.ErrDatabase, false},
		"gormlease.ErrOption":             {gormlease.ErrOption, false},
		"sqllease.ErrTable":               {sqllease.ErrTable, false},
		"sqllease.ErrDatabase":            {sqllease.ErrDatabase, false},
		"opaque.ErrKey":                   {opaque.ErrKey, false},
		"opaque.ErrInvalid":               {opaque.ErrInvalid, false},
		"migrate.ErrDatabase":             {migrate.ErrDatabase, false},
		"sqllease.ErrOption":              {sqllease.ErrOption, false},
		"segment.ErrExhausted":            {segment.ErrExhausted, true},
		"segment.ErrDayFull":              {segment.ErrDayFull, false},
		"segment.ErrFull":                 {segment.ErrFull, false},
		"segment.ErrResidue":              {segment.ErrResidue, false},
		"segment.ErrKind":                 {segment.ErrKind, false},
		"segment.ErrFrozen":               {segment.ErrFrozen, true},
		"segment.ErrWentBack":             {segment.ErrWentBack, false},
		"segment.ErrStore":                {segment.ErrStore, true},
		"segment.ErrInvalidCounter":       {segment.ErrInvalidCounter, false},
		"segment.ErrInvalidOption":        {segment.ErrInvalidOption, false},
		"segment.ErrCanceled":             {segment.ErrCanceled, false},
		"segment.ErrClosed":               {segment.ErrClosed, false},
		"gormsegment.ErrTable":            {gormsegment.ErrTable, false},
		"gormsegment.ErrDatabase":         {gormsegment.ErrDatabase, false},
		"gormsegment.ErrOption":           {gormsegment.ErrOption, false},
		"sqlsegment.ErrTable":             {sqlsegment.ErrTable, false},
		"sqlsegment.ErrDatabase":          {sqlsegment.ErrDatabase, false},
		"sqlsegment.ErrOption":            {sqlsegment.ErrOption, false},
	}
}

// The table of docs/errors.md lists every sentinel of the packages and agrees with Retryable.
func TestTheTableOfErrorsIsComplete(t *testing.T) {
	t.Parallel()
	known := sentinels()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(\\w+\\.Err\\w+)` \\| ([^|]+) \\|")
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		said[match[1]] = match[2]
	}
	for name := range declaredErrors(t) {
		if _, found := known[name]; !found {
			t.Errorf("%s is declared, but this test does not know it", name)
		}
		if said[name] == "" {
			t.Errorf("%s is declared, but docs/errors.md does not list it", name)
		}
	}
	for name, s := range known {
		wrapped := fmt.Errorf("something went wrong: %w", s.err)
		if got := snowflakeplugin.Retryable(wrapped); got != s.retryable {
			t.Errorf("Retryable(%s) is %t", name, got)
		}
		if s.retryable != (said[name] == "yes") {
			t.Errorf("docs/errors.md says %q for %s, but Retryable says %t", said[name], name, s.retryable)
		}
	}
}

func TestALastingCauseOutweighsAPassingOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":                    {nil, false},
		"the database":               {errors.New("duplicate key"), false},
		"no node, no answer":         {fmt.Errorf("%w: %w", snowflakeplugin.ErrNoNode, lease.ErrStore), true},
		"no node, wrong option":      {fmt.Errorf("%w: %w", snowflakeplugin.ErrNoNode, lease.ErrInvalidOption), false},
		"window over, no answer":     {fmt.Errorf("%w: %w", generator.ErrOutsideWindow, lease.ErrStore), true},
		"window over, keeper closed": {fmt.Errorf("%w: %w", generator.ErrOutsideWindow, lease.ErrClosed), false},
		"a deadline during the wait": {fmt.Errorf("%w: %w", generator.ErrCanceled, context.DeadlineExceeded), true},
		"a deadline elsewhere":       {context.DeadlineExceeded, false},
		"a source without a replica": {fmt.Errorf("%w: %w", snowflakeplugin.ErrUnavailable, context.DeadlineExceeded), true},
		"a source, given up":         {fmt.Errorf("%w: %w", snowflakeplugin.ErrUnavailable, context.Canceled), false},
		"a source that is closed":    {fmt.Errorf("%w: %w", snowflakeplugin.ErrUnavailable, snowflakeplugin.ErrClosed), false},
		"the caller gave up":         {fmt.Errorf("%w: %w", generator.ErrCanceled, context.Canceled), false},
		"some shards have their rows": {
			errors.Join(&snowflakeplugin.PartialError{Failed: map[int]error{3: lease.ErrStore}}), false,
		},
	} {
		if got := snowflakeplugin.Retryable(c.err); got != c.want {
			t.Errorf("%s: Retryable is %t", name, got)
		}
	}
}

// The generator returns a real error if its clock is too far behind. The error is retryable,
// because it goes away as time passes.
func TestAClockSetBackIsRetryable(t *testing.T) {
	t.Parallel()
	now := time.Now()
	g, err := generator.New(generator.Default(), generator.FixedNode(1),
		generator.WithClock(func() time.Time { return now }), generator.WithMaxWait(0))
	if err != nil {
		t.Fatal(err)
	}
	plugin := snowflakeplugin.New(snowflakeplugin.WithSource(g))
	now = now.Add(time.Minute)
	if _, err = plugin.NextID(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Hour)
	if _, err = plugin.NextID(t.Context()); !snowflakeplugin.Retryable(err) {
		t.Errorf("after a step back NextID returns %v", err)
	}
	now = now.Add(2 * time.Hour)
	if _, err = plugin.NextID(t.Context()); err != nil {
		t.Errorf("after the clock has caught up, NextID returned %v", err)
	}
}

// declaredErrors returns the exported error variables of the packages for users.
func declaredErrors(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, dir := range []string{".", "generator", "lease", "lease/gormlease", "lease/sqllease", "segment",
		"segment/gormsegment", "segment/sqlsegment", "opaque", "migrate"} {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range parsed.Decls {
				general, ok := decl.(*ast.GenDecl)
				if !ok || general.Tok != token.VAR {
					continue
				}
				for _, spec := range general.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						if strings.HasPrefix(name.Name, "Err") && name.IsExported() {
							names[parsed.Name.Name+"."+name.Name] = true
						}
					}
				}
			}
		}
	}
	return names
}
