package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/redisstore"
)

func settings() redisstore.Settings {
	return redisstore.Settings{
		Appending: map[string]string{
			"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no",
		},
		Memory:      map[string]string{"maxmemory-policy": "noeviction"},
		Replication: "# Replication\r\nrole:master\r\nconnected_slaves:1\r\n",
	}
}

func TestEverySettingThatLetsAServerForgetIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(s *redisstore.Settings)
		replicas int
		want     string // empty: the server is durable
	}{
		"a durable server":         {func(*redisstore.Settings) {}, 1, ""},
		"keys with an end evicted": {func(s *redisstore.Settings) { s.Memory["maxmemory-policy"] = "volatile-lru" }, 1, ""},
		"no file":                  {func(s *redisstore.Settings) { s.Appending["appendonly"] = "no" }, 1, `appendonly is "no"`},
		"a file flushed later":     {func(s *redisstore.Settings) { s.Appending["appendfsync"] = "everysec" }, 1, `appendfsync is "everysec"`},
		"no flush in a rewrite":    {func(s *redisstore.Settings) { s.Appending["no-appendfsync-on-rewrite"] = "yes" }, 1, "no-appendfsync-on-rewrite"},
		"all keys evicted":         {func(s *redisstore.Settings) { s.Memory["maxmemory-policy"] = "allkeys-lru" }, 1, "allkeys-lru"},
		"an answer without values": {func(s *redisstore.Settings) { s.Appending, s.Memory = nil, nil }, 1, `appendonly is ""`},
		"a replica":                {func(s *redisstore.Settings) { s.Replication = "role:slave\r\n" }, 1, `is a "slave"`},
		"a replica too many":       {func(*redisstore.Settings) {}, 0, `"1" replicas are connected`},
		"an unknown number":        {func(s *redisstore.Settings) { s.Replication = "role:master\r\n" }, 1, `"" replicas`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := settings()
			c.change(&s)
			err := s.Judge(c.replicas)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the judgment is %v, want %q", err, c.want)
			}
		})
	}
}

func TestAWriteIsConfirmedByTheDiskOfTheMasterAndByAllReplicas(t *testing.T) {
	t.Parallel()
	two := redisstore.Strictness{Replicas: 2, Timeout: time.Second}
	for name, c := range map[string]struct {
		answer any
		safe   bool
	}{
		"WAIT: both":                  {int64(2), true},
		"WAIT: one":                   {int64(1), false},
		"WAITAOF: all disks":          {[]any{int64(1), int64(2)}, true},
		"WAITAOF: not the master's":   {[]any{int64(0), int64(2)}, false},
		"WAITAOF: one of the others'": {[]any{int64(1), int64(1)}, false},
		"WAITAOF: cut short":          {[]any{int64(1)}, false},
		"a text":                      {"OK", false},
		"nothing":                     {nil, false},
	} {
		if err := two.Confirmed(c.answer); (err == nil) != c.safe {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAStrictnessThatNoServerCanHaveIsRefused(t *testing.T) {
	t.Parallel()
	for s, valid := range map[redisstore.Strictness]bool{
		{0, time.Millisecond}: true, {3, 10 * time.Second}: true,
		{-1, time.Second}: false, {0, 0}: false, {0, 10*time.Second + 1}: false,
	} {
		if err := s.Validate(); (err == nil) != valid {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestAServerThatDoesNotShowItsSettingsGetsARemedy(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"NOPERM User default has no permissions to run the 'config|get' command", "ERR unknown command 'CONFIG'",
	} {
		if err := redisstore.Readable(errors.New(text)); !strings.Contains(err.Error(), "CONFIG GET, INFO, WAIT") {
			t.Errorf("%q became %v", text, err)
		}
	}
	lost := errors.New("connection refused")
	if err := redisstore.Readable(lost); !errors.Is(err, lost) || err.Error() != lost.Error() {
		t.Errorf("another error became %v", err)
	}
}
