package web

import (
	"context"
	"log/slog"
)

// discardBody keeps the messages of net/http at the level of debugging, and cuts them: they may quote a
// part of what a client has sent, which may be a secret that was sent to the wrong port.
type discardBody struct{ slog.Handler }

const maxMessage = 120

// Handle implements slog.Handler.
func (h discardBody) Handle(ctx context.Context, r slog.Record) error {
	text := r.Message
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	short := slog.NewRecord(r.Time, slog.LevelDebug, "snowflaked: connection: "+text, r.PC)
	return h.Handler.Handle(ctx, short)
}
