package snowflakeplugin

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"gorm.io/gorm/logger"
)

// warnings is a handler that takes nothing below a warning.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// gormLog is a handler of warnings and errors that writes to a logger of GORM, whose level decides.
type gormLog struct {
	output logger.Interface
	prefix string // of the keys
	attrs  string
}

func (gormLog) Enabled(context.Context, slog.Level) bool { return true }

func (g gormLog) Handle(ctx context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(r.Message + g.attrs)
	r.Attrs(func(a slog.Attr) bool {
		text.WriteString(g.written(a))
		return true
	})
	write := g.output.Warn
	if r.Level >= slog.LevelError {
		write = g.output.Error
	}
	write(ctx, "%s", text.String())
	return nil
}

// written is an attribute as text.
func (g gormLog) written(a slog.Attr) string {
	return fmt.Sprintf(", %s%s: %v", g.prefix, a.Key, a.Value.Resolve())
}

func (g gormLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		g.attrs += g.written(a)
	}
	return g
}

func (g gormLog) WithGroup(name string) slog.Handler {
	g.prefix += name + "."
	return g
}
