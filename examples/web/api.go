package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

//go:embed page.html
var page []byte

const (
	usualPage, largestPage = 20, 100
	// maxBody is how large a body may be.
	maxBody = 1 << 20
	// kind tells sealed IDs of orders from those of other tables.
	kind = "order"
)

// view is an order as the API shows it.
type view struct {
	ID       snowflakeplugin.ID `json:"id"` // a text
	Short    string             `json:"short"`
	Sealed   string             `json:"sealed"`
	Customer string             `json:"customer"`
	Total    int64              `json:"total"`
	At       time.Time          `json:"at"`
}

// views is one page.
type views struct {
	Orders []view              `json:"orders"`
	Next   *snowflakeplugin.ID `json:"next"` // null after the last page
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /api/orders", s.list)
	mux.HandleFunc("POST /api/orders", s.create)
	mux.HandleFunc("POST /api/totals", s.totals)
	mux.HandleFunc("GET /api/orders/{id}", s.one(snowflakeplugin.ParseID))
	// These are addresses for people: one is short, and the other tells a stranger nothing.
	mux.HandleFunc("GET /o/{id}", s.one(snowflakeplugin.ParseBase62))
	mux.HandleFunc("GET /s/{id}", s.one(func(text string) (snowflakeplugin.ID, error) {
		id, err := s.codec.Open(kind, text)
		return snowflakeplugin.ID(id), err
	}))
	mux.HandleFunc("GET /api/orders/{id}/number", number)
	return mux
}

// list answers with a page: ?limit=20&below=ID&since=yesterday.
func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	var since, below snowflakeplugin.ID
	var err error
	query := r.URL.Query()
	limit := usualPage
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > largestPage {
			refuse(w, http.StatusBadRequest, fmt.Errorf("limit is a number from 1 to %d", largestPage))
			return
		}
	}
	if text := query.Get("below"); text != "" {
		below, err = snowflakeplugin.ParseID(text)
	}
	if since := query.Get("since"); since != "" && since != "yesterday" {
		err = errors.Join(err, fmt.Errorf("since is \"yesterday\" or left out, and not %q", since))
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if query.Get("since") != "" {
		if since, err = s.sinceYesterday(); err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
	}
	orders, next, err := s.page(r.Context(), since, below, limit)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	answer := views{Orders: make([]view, 0, len(orders))}
	for _, o := range orders {
		answer.Orders = append(answer.Orders, s.view(o))
	}
	if !next.IsZero() {
		answer.Next = &next
	}
	reply(w, http.StatusOK, answer)
}

func (s *shop) view(o Order) view {
	made, err := o.ID.Time(s.plugin.Layout())
	if err != nil {
		made = time.Time{} // the ID is of another layout
	}
	return view{
		ID: o.ID, Short: o.ID.Base62(), Sealed: s.codec.Seal(kind, o.ID.Int64()),
		Customer: o.Customer, Total: o.Total, At: made,
	}
}

// create creates an order. The client chooses no ID.
func (s *shop) create(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Customer string `json:"customer"`
		Total    int64  `json:"total"`
	}
	if err := read(w, r, &wanted); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	order := Order{Customer: wanted.Customer, Total: wanted.Total}
	if err := s.db.WithContext(r.Context()).Create(&order).Error; err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	reply(w, http.StatusCreated, s.view(order))
}

// totals answers with the totals of some orders. IDs are values in the question and keys in the answer.
func (s *shop) totals(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		IDs []snowflakeplugin.ID `json:"ids"`
	}
	if err := read(w, r, &wanted); err != nil {
		refuse(w, http.StatusBadRequest, err) // a number beyond 2^53 may be rounded already
		return
	}
	if len(wanted.IDs) > largestPage {
		refuse(w, http.StatusBadRequest, fmt.Errorf("at most %d IDs", largestPage))
		return
	}
	var orders []Order
	if err := s.db.WithContext(r.Context()).Where("id IN ?", wanted.IDs).Find(&orders).Error; err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	totals := make(map[snowflakeplugin.ID]int64, len(orders))
	for _, o := range orders {
		totals[o.ID] = o.Total
	}
	reply(w, http.StatusOK, totals)
}

// one answers with the order that a part of the path names. It says the same of a text that is no ID and of
// an order that does not exist.
func (s *shop) one(parse func(string) (snowflakeplugin.ID, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := parse(r.PathValue("id"))
		var order Order
		if err == nil {
			err = s.db.WithContext(r.Context()).Take(&order, id).Error
			if err != nil && !errors.Is(err, gorm.ErrRecordNotFound) {
				refuse(w, http.StatusInternalServerError, err)
				return
			}
		}
		if err != nil {
			refuse(w, http.StatusNotFound, errors.New("there is no such order"))
			return
		}
		reply(w, http.StatusOK, s.view(order))
	}
}

// number answers with an ID as a number in JSON. It is here to show why no API should do that.
func number(w http.ResponseWriter, r *http.Request) {
	id, err := snowflakeplugin.ParseID(r.PathValue("id"))
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	reply(w, http.StatusOK, map[string]int64{"id": id.Int64()})
}

func read(w http.ResponseWriter, r *http.Request, into any) error {
	return json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // nobody is left to tell
}

func refuse(w http.ResponseWriter, status int, err error) {
	text := err.Error()
	if status == http.StatusInternalServerError {
		text = "this did not work" // what the database said is for the log
	}
	reply(w, status, map[string]string{"error": text})
}
