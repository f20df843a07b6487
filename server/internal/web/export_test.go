package web

import "net/http"

// Handlers returns the handler of a server, and one that leaves every request to Connect.
func Handlers(o, same Options) (direct, indirect http.Handler) {
	return o.handler(o.direct), same.handler(func(next http.Handler) http.Handler { return next })
}
