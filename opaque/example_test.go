package opaque_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/opaque"
)

// An API whose addresses and bodies have no ID that tells anything: it seals where an ID leaves the program,
// and opens where one comes in.
func Example() {
	codec, err := opaque.New([]byte("16 secret bytes!")) // read it from where you keep secrets
	if err != nil {
		fmt.Println(err)
		return
	}
	type order struct {
		ID       string `json:"id"`
		Customer string `json:"customer"`
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := codec.Open("order", r.PathValue("id"))
		if errors.Is(err, opaque.ErrInvalid) {
			http.Error(w, "no such order", http.StatusNotFound) // as for one that does not exist
			return
		}
		// Here a program reads the row, and checks that the caller may see it.
		body, err := json.Marshal(order{codec.Seal("order", id), codec.Seal("customer", 7)})
		if err != nil {
			http.Error(w, "this did not work", http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(body)
	})

	ctx := context.Background()
	for _, path := range []string{
		"/orders/" + codec.Seal("order", 214_578_291_077_480_449),
		"/orders/" + codec.Seal("customer", 214_578_291_077_480_449), // sealed for another kind
		"/orders/214578291077480449",                                 // guessed
	} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))
	}
	// Output:
	// 200 {"id":"6WLhDN4MIFBxRHGdyZifLj","customer":"5j7CXx4cBjYhYKDYCOxz1W"}
	// 404 no such order
	// 404 no such order
}

// A new key seals, and addresses of the old one stay valid.
func ExampleNew() {
	oldKey, newKey := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	before, err := opaque.New(oldKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	after, err := opaque.New(newKey, oldKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	address := before.Seal("order", 1)
	id, err := after.Open("order", address)
	fmt.Println(address, id, err)
	fmt.Println(after.Seal("order", 1))
	// Output:
	// 6pZL6MyBZji8K3WXe5dq1P 1 <nil>
	// 7AEU5UIalxRHkBEk4rj4sv
}

// The way to keyed tags: every process opens both forms before the first one seals the new form.
func ExampleNewCodec() {
	keys := [][]byte{[]byte("0123456789abcdef")}
	var address string
	for _, opts := range [][]opaque.Option{
		{}, {opaque.WithKeyedTags()}, {opaque.WithOnlyKeyedTags()},
	} {
		codec, err := opaque.NewCodec(keys, opts...)
		if err != nil {
			fmt.Println(err)
			return
		}
		if address == "" {
			address = codec.Seal("order", 1)
		}
		id, err := codec.Open("order", address)
		fmt.Println(codec.Seal("order", 1), "and the old address is", id, err)
	}
	// Output:
	// 6pZL6MyBZji8K3WXe5dq1P and the old address is 1 <nil>
	// 0XKCSfZzT4DakUbm3AiDSd and the old address is 1 <nil>
	// 0XKCSfZzT4DakUbm3AiDSd and the old address is 0 opaque: not a sealed ID
}
