// Package web answers over HTTP: gRPC, gRPC-Web and JSON by one handler, the probes, and the metrics.
package web

import (
	"context"
	"math"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
)

// ids implements the service.
type ids struct {
	desk   *issue.Desk
	layout generator.Layout
}

// Next makes IDs.
func (s *ids) Next(
	ctx context.Context, r *connect.Request[snowflakev1.NextRequest],
) (*connect.Response[snowflakev1.NextResponse], error) {
	count := int64(1)
	if r.Msg.Count != nil {
		count = int64(r.Msg.GetCount())
	}
	made, err := s.desk.Issue(ctx, callerOf(ctx), r.Msg.GetSource(), count)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&snowflakev1.NextResponse{Ids: made}), nil
}

// Decompose explains an ID of the generator.
func (s *ids) Decompose(
	_ context.Context, r *connect.Request[snowflakev1.DecomposeRequest],
) (*connect.Response[snowflakev1.DecomposeResponse], error) {
	parts, err := s.layout.Decompose(r.Msg.GetId())
	if err != nil {
		return nil, &issue.Fault{Kind: issue.Invalid, Text: err.Error()}
	}
	return connect.NewResponse(&snowflakev1.DecomposeResponse{
		Time: timestamppb.New(parts.Time), Node: parts.Node, Sequence: parts.Sequence, Layout: s.layout.Name,
	}), nil
}

// Range returns the bounds of the IDs of a period.
func (s *ids) Range(
	_ context.Context, r *connect.Request[snowflakev1.RangeRequest],
) (*connect.Response[snowflakev1.RangeResponse], error) {
	for name, t := range map[string]*timestamppb.Timestamp{"from": r.Msg.GetFrom(), "to": r.Msg.GetTo()} {
		if t == nil || !t.IsValid() {
			return nil, &issue.Fault{Kind: issue.Invalid, Text: name + " has to be a time, such as " +
				time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).Format(time.RFC3339)}
		}
	}
	first, end, err := s.layout.Range(r.Msg.GetFrom().AsTime(), r.Msg.GetTo().AsTime())
	if err != nil {
		return nil, &issue.Fault{Kind: issue.Invalid, Text: err.Error()}
	}
	last := end - 1
	if end == math.MaxInt64 && first < end {
		last = end // in a layout of 63 bits, the range of the last tick ends beyond every integer
	}
	return connect.NewResponse(&snowflakev1.RangeResponse{First: first, Last: last, End: end}), nil
}

// observer counts the calls and turns faults into errors of Connect.
func observer(m *metrics.Set) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (answer connect.AnyResponse, err error) {
			began := time.Now()
			code := "ok"
			if answer, err = next(ctx, r); err != nil {
				err = connectError(ctx, err)
				code = connect.CodeOf(err).String()
			}
			m.Observe(r.Peer().Protocol, code, time.Since(began))
			return answer, err
		}
	}
}

func connectError(ctx context.Context, err error) error {
	fault := issue.AsFault(err)
	if ctx.Err() != nil && err == ctx.Err() { //nolint:errorlint // Connect returns it as it is
		fault = issue.Ended(ctx) // the request was over before it was worked on
	}
	return connect.NewError(codeOf(fault.Kind), fault)
}

// codeOf returns the code of Connect, which has the name of the kind.
func codeOf(k issue.Kind) (code connect.Code) {
	if err := code.UnmarshalText([]byte(k)); err != nil {
		return connect.CodeInternal
	}
	return code
}
