package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestTheShopShowsItsMetricsAndItsHealth(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, listener, filepath.Join(t.TempDir(), "shop.db")) }()

	url := "http://" + listener.Addr().String()
	sold := regexp.MustCompile(`(?m)^snowflake_ids_total ([3-9]|\d{2,})$`)
	for !sold.MatchString(get(t, url+"/metrics")) {
		time.Sleep(time.Millisecond) // until three orders are sold
	}
	if text := get(t, url+"/metrics"); !strings.Contains(text, `snowflake_state{state="leased"} 1`) {
		t.Errorf("the metrics lack the state:\n%s", text)
	}
	var health struct {
		State string `json:"state"`
		Ready bool   `json:"ready"`
	}
	if err := json.Unmarshal([]byte(get(t, url+"/readyz")), &health); err != nil {
		t.Fatal(err)
	}
	if health.State != "leased" || !health.Ready {
		t.Errorf("the health is %+v", health)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
