package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1/snowflakev1connect"
)

// The name and the paths of the gRPC health checking protocol, which load balancers and Kubernetes know.
const (
	healthService = "grpc.health.v1.Health"
	healthCheck   = "/" + healthService + "/Check"
	healthWatch   = "/" + healthService + "/Watch"

	// watchEvery is how often a watcher looks.
	watchEvery = 250 * time.Millisecond
)

type health struct {
	ready    func() (bool, string)
	stopping <-chan struct{}
}

func (h health) status(service string) (*snowflakev1.HealthCheckResponse, bool) {
	if service != "" && service != snowflakev1connect.IDServiceName {
		return &snowflakev1.HealthCheckResponse{Status: snowflakev1.HealthCheckResponse_SERVICE_UNKNOWN}, false
	}
	status := snowflakev1.HealthCheckResponse_NOT_SERVING
	if ready, _ := h.ready(); ready {
		status = snowflakev1.HealthCheckResponse_SERVING
	}
	return &snowflakev1.HealthCheckResponse{Status: status}, true
}

func (h health) check(
	_ context.Context, r *connect.Request[snowflakev1.HealthCheckRequest],
) (*connect.Response[snowflakev1.HealthCheckResponse], error) {
	answer, known := h.status(r.Msg.GetService())
	if !known {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such service"))
	}
	return connect.NewResponse(answer), nil
}

// watch sends the status at once, and then whenever it changes, until the client or the service ends.
func (h health) watch(
	ctx context.Context, r *connect.Request[snowflakev1.HealthCheckRequest],
	stream *connect.ServerStream[snowflakev1.HealthCheckResponse],
) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	last := snowflakev1.HealthCheckResponse_UNKNOWN
	for {
		answer, _ := h.status(r.Msg.GetService())
		if answer.GetStatus() != last {
			last = answer.GetStatus()
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.stopping:
			return connect.NewError(connect.CodeUnavailable, errors.New("this replica is ending"))
		case <-ticker.C:
		}
	}
}

// unlimited lifts the deadlines of the server from a request that is meant to last.
func unlimited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Time{}) // where it is not supported, the limit stays
		_ = control.SetWriteDeadline(time.Time{})
		next.ServeHTTP(w, r)
	})
}
