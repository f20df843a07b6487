package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// serve opens a shop with its orders, and a server for it.
func serve(t *testing.T) (*shop, *httptest.Server) {
	t.Helper()
	s, err := openShop(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	began := time.Now() // no midnight comes during the test
	s.now = func() time.Time { return began }
	if err := s.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.handler())
	t.Cleanup(server.Close)
	return s, server
}

// ask sends a request and returns the status and the text of the answer.
func ask(t *testing.T, method, address, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text.String()
}

// stored reads all keys with SQL, the greatest first.
func stored(t *testing.T, s *shop) (ids []int64) {
	t.Helper()
	if err := s.db.Raw("SELECT id FROM orders ORDER BY id DESC").Scan(&ids).Error; err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestThePageShowsExactIDs(t *testing.T) {
	nightly.Only(t, "a browser takes half a minute of the processor to start, and "+
		"TestWhatThePageAsksForIsAnswered asks the same without one")
	t.Parallel()
	s, server := serve(t)
	before := stored(t, s)
	text := browse(t, server.URL)
	if !strings.Contains(text, ">done<") {
		t.Fatalf("the page is\n%s", text)
	}
	numbers := regexp.MustCompile(`<td>(\d+)</td><td class="wrong">(\d+)</td>`).FindAllStringSubmatch(text, -1)
	if len(numbers) != 5 {
		t.Errorf("%d IDs are compared with numbers", len(numbers))
	}
	different := 0
	for i, pair := range numbers {
		// JavaScript prints the shortest digits that are the number, as FormatFloat does.
		rounded := strconv.FormatFloat(float64(before[i]), 'f', -1, 64)
		if pair[1] != strconv.FormatInt(before[i], 10) || pair[2] != rounded {
			t.Errorf("the page shows %s and %s for %d, which is %s as a number", pair[1], pair[2], before[i], rounded)
		}
		if pair[1] != pair[2] {
			different++
		}
	}
	if different == 0 {
		t.Error("no ID is too long for a number")
	}
	for _, name := range []string{"post", "keys", "refused", "short", "sealed", "guess", "pages"} {
		if !regexp.MustCompile(`<tr id="` + name + `"><td class="">yes</td>`).MatchString(text) {
			t.Errorf("%q did not succeed:\n%s", name, text)
		}
	}
	after := stored(t, s)
	made := regexp.MustCompile(`a new order (\d+) is found`).FindStringSubmatch(text)
	added := len(after) - len(before)
	if made == nil || added < 3 || made[1] != strconv.FormatInt(after[added-1], 10) {
		t.Errorf("the page says %q of the first of %d new orders, which is %d", made, added, after[added-1])
	}
	recent := strconv.Itoa(yesterdayOrders + todayOrders + added)
	seen := strconv.Itoa(len(before) + 1) // those that were added between pages are newer than the first page
	if !strings.Contains(text, `id="recent">`+recent+`<`) || !strings.Contains(text, `id="count">`+seen+`<`) {
		t.Errorf("the page does not say %s of %s:\n%s", recent, seen, text)
	}
}

// browse returns the page after its script has ended.
func browse(t *testing.T, address string) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		browser, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		command := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu",
			"--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), "--virtual-time-budget=60000", "--dump-dom",
			address)
		text, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if os.Getenv("CI") != "" && os.Getenv("SNOWFLAKE_NO_INSTALL") == "" {
		t.Fatal("Chromium is missing; scripts/services.sh installs it")
	}
	t.Skip("Chromium is not installed")
	return ""
}

func TestWhatThePageAsksForIsAnswered(t *testing.T) {
	t.Parallel()
	_, server := serve(t)
	if status, text := ask(t, http.MethodGet, server.URL, ""); status != http.StatusOK || text != string(page) {
		t.Errorf("the page has the status %d and is\n%s", status, text)
	}
	get := func(path string, into any) {
		t.Helper()
		status, text := ask(t, http.MethodGet, server.URL+path, "")
		if err := json.Unmarshal([]byte(text), into); err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", path, status, text, err)
		}
	}
	create := func() (made view) {
		t.Helper()
		status, text := ask(t, http.MethodPost, server.URL+"/api/orders", `{"customer":"browser","total":4200}`)
		if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusCreated {
			t.Fatalf("a new order: %d %s, %v", status, text, err)
		}
		return made
	}
	var first views
	get("/api/orders?limit=5", &first)
	made := create()
	if len(first.Orders) != 5 || made.ID <= first.Orders[0].ID {
		t.Errorf("the new order %v is not the greatest of %+v", made.ID, first.Orders)
	}
	for _, path := range []string{"/api/orders/" + made.ID.String(), "/o/" + made.Short, "/s/" + made.Sealed} {
		var again view
		if get(path, &again); again.ID != made.ID || again.Total != 4200 {
			t.Errorf("%s leads to %+v, want %+v", path, again, made)
		}
	}
	changed := "0"
	if strings.HasSuffix(made.Sealed, changed) {
		changed = "1"
	}
	guess := "/s/" + made.Sealed[:len(made.Sealed)-1] + changed
	if status, text := ask(t, http.MethodGet, server.URL+guess, ""); status != http.StatusNotFound {
		t.Errorf("%s: %d %s", guess, status, text)
	}
	seen := map[snowflakeplugin.ID]bool{}
	for below, more := "", true; more; { // orders are added between the pages
		var list views
		get("/api/orders?limit=40"+below, &list)
		for _, order := range list.Orders {
			if seen[order.ID] {
				t.Errorf("order %v is on two pages", order.ID)
			}
			seen[order.ID] = true
		}
		if more = list.Next != nil; more {
			below = "&below=" + list.Next.String()
			create()
		}
	}
	if want := oldOrders + yesterdayOrders + todayOrders + 1; len(seen) != want {
		t.Errorf("%d orders are on the pages, want %d", len(seen), want)
	}
}

func TestTheAPIHasTextsAndRefusesWhatMayBeRounded(t *testing.T) {
	t.Parallel()
	s, server := serve(t)
	id := strconv.FormatInt(stored(t, s)[3], 10)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"an order":                {"GET", "/api/orders/" + id, "", 200, `"id":"` + id + `"`},
		"a number, for contrast":  {"GET", "/api/orders/" + id + "/number", "", 200, `{"id":` + id + `}`},
		"keys of a map":           {"POST", "/api/totals", `{"ids":["` + id + `"]}`, 200, `{"` + id + `":`},
		"a number beyond 2^53":    {"POST", "/api/totals", `{"ids":[` + id + `]}`, 400, `{"error":`},
		"an order that is not":    {"GET", "/api/orders/12345", "", 404, "no such order"},
		"a text that is no ID":    {"GET", "/api/orders/12x45", "", 404, "no such order"},
		"a raw ID as sealed":      {"GET", "/s/" + id, "", 404, "no such order"},
		"a cursor that is no ID":  {"GET", "/api/orders?below=1e17", "", 400, `{"error":`},
		"a page that is too long": {"GET", "/api/orders?limit=101", "", 400, "from 1 to 100"},
		"another time":            {"GET", "/api/orders?since=monday", "", 400, "yesterday"},
		"no JSON":                 {"POST", "/api/orders", `{`, 400, `{"error":`},
	} {
		status, text := ask(t, c.method, server.URL+c.path, c.body)
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s; want %d and %s", name, status, text, c.status, c.want)
		}
	}
}

func TestSinceYesterdayBeginsWithItsFirstMoment(t *testing.T) {
	t.Parallel()
	s, server := serve(t)
	for _, c := range []struct {
		query string
		pages []int
	}{
		{"since=yesterday&limit=25", []int{25, 25, 10}},
		{"since=yesterday&limit=60", []int{60}},
		{"limit=100", []int{100, 50}},
	} {
		var got []int
		var last view
		for below := ""; ; {
			_, text := ask(t, http.MethodGet, server.URL+"/api/orders?"+c.query+below, "")
			var page views
			if err := json.Unmarshal([]byte(text), &page); err != nil {
				t.Fatal(err)
			}
			got, last = append(got, len(page.Orders)), page.Orders[len(page.Orders)-1]
			if page.Next == nil {
				break
			}
			below = "&below=" + page.Next.String()
		}
		if len(got) != len(c.pages) {
			t.Fatalf("%s: the pages have %v orders, want %v", c.query, got, c.pages)
		}
		for i := range got {
			if got[i] != c.pages[i] {
				t.Errorf("%s: the pages have %v orders, want %v", c.query, got, c.pages)
			}
		}
		if strings.HasPrefix(c.query, "since") && !last.At.Equal(midnight(s.now()).AddDate(0, 0, -1)) {
			t.Errorf("%s: the first order is of %v", c.query, last.At)
		}
		if id, err := snowflakeplugin.ParseBase62(last.Short); err != nil || id != last.ID {
			t.Errorf("%s is %v, %v, and not %v", last.Short, id, err, last.ID)
		}
	}
}
