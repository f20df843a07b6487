package filling_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/leasetest"
)

func TestHealthTellsEveryMode(t *testing.T) {
	t.Parallel()
	hand := snowflakeplugin.New(snowflakeplugin.WithNode(7))
	wantHealth(t, hand, "idle", false)
	if _, err := hand.NextID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h := wantHealth(t, hand, "by_hand", true); h.Node != 7 || !h.WindowUntil.IsZero() {
		t.Errorf("by hand: %+v", h)
	}
	must(t, hand.Close(t.Context()), "Close")
	if h := wantHealth(t, hand, "closed", false); h.Node != 7 {
		t.Errorf("closed: %+v", h)
	}
	wantHealth(t, snowflakeplugin.New(snowflakeplugin.WithSource(counter{})), "source", true)
	broken := snowflakeplugin.New(snowflakeplugin.WithNode(-7))
	if h := wantHealth(t, broken, "idle", false); !errors.Is(h.LastError, snowflakeplugin.ErrOptions) {
		t.Errorf("wrong options: %+v", h)
	}
}

// away is a store that can be switched off.
type away struct {
	lease.Store
	off atomic.Bool
}

var errStoreAway = errors.New("the store is away")

func (s *away) List(ctx context.Context) ([]lease.Record, error) {
	if s.off.Load() {
		return nil, errStoreAway
	}
	return s.Store.List(ctx)
}

func (s *away) Now(ctx context.Context) (time.Time, error) {
	if s.off.Load() {
		return time.Time{}, errStoreAway
	}
	return s.Store.Now(ctx)
}

func (s *away) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	if s.off.Load() {
		return false, errStoreAway
	}
	return s.Store.Swap(ctx, prev, next)
}

func TestHealthFollowsTheLease(t *testing.T) {
	t.Parallel()
	store := &away{Store: leasetest.NewMemory(time.Now)}
	plugin := snowflakeplugin.New(silent(), snowflakeplugin.WithLeasedNode(7),
		snowflakeplugin.WithLease(store, lease.WithSpan(300*time.Millisecond), lease.WithOwner("the web")))
	if _, err := plugin.NextID(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := wantHealth(t, plugin, "leased", true)
	if h.Node != 7 || !strings.HasPrefix(h.Owner, "the web #") || !h.WindowUntil.After(h.WindowFrom) || h.LastError != nil {
		t.Errorf("leased: %+v", h)
	}
	text, err := json.Marshal(h)
	must(t, err, "Marshal")
	if names := jsonNames(t, text); !slices.Equal(names, []string{
		"node", "owner", "ready", "state", "window_from", "window_until",
	}) {
		t.Errorf("the JSON of a lease has the names %v", names)
	}
	store.off.Store(true)
	h = waitHealth(t, plugin, "overdue")
	if h.Ready || !errors.Is(h.LastError, errStoreAway) || h.FailingSince.IsZero() || h.Node != 7 {
		t.Errorf("overdue: %+v", h)
	}
	text, err = json.Marshal(h)
	must(t, err, "Marshal")
	if !strings.Contains(string(text), `"last_error":"`) || !strings.Contains(string(text), `"failing_since":"2`) {
		t.Errorf("the JSON of a failure is %s", text)
	}
	store.off.Store(false)
	h = waitHealth(t, plugin, "leased")
	if !h.Ready || h.LastError != nil || !h.FailingSince.IsZero() {
		t.Errorf("back: %+v", h)
	}
	must(t, plugin.Close(t.Context()), "Close")
	wantHealth(t, plugin, "closed", false)
	text, err = json.Marshal(plugin.Stats())
	must(t, err, "Marshal")
	for _, name := range []string{"node", "issued", "lead_ns", "waits", "waited_ns", "clock_steps", "extensions", "years_left"} {
		if !slices.Contains(jsonNames(t, text), name) {
			t.Errorf("the JSON of Stats lacks %s: %s", name, text)
		}
	}
}

func wantHealth(
	t *testing.T, plugin *snowflakeplugin.Plugin, state string, ready bool,
) snowflakeplugin.Health {
	t.Helper()
	h := plugin.Health(t.Context())
	if h.State != state || h.Ready != ready {
		t.Errorf("Health is %+v, want %s, ready %t", h, state, ready)
	}
	return h
}

// waitHealth waits for a state. The test fails only if it never comes.
func waitHealth(
	t *testing.T, plugin *snowflakeplugin.Plugin, state string,
) snowflakeplugin.Health {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		h := plugin.Health(t.Context())
		if h.State == state && (state == "overdue" || h.LastError == nil) {
			return h
		}
		if time.Now().After(deadline) {
			t.Fatalf("Health stays %+v, want %s", h, state)
		}
	}
}

func jsonNames(t *testing.T, text []byte) []string {
	t.Helper()
	var object map[string]any
	must(t, json.Unmarshal(text, &object), "Unmarshal")
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
