// Package load has the tests that run the service as processes, disturb them, and measure them. "make
// load" runs them for as long as the issue of an operator needs, and prints tables. Otherwise they are
// short, and no figure decides them.
package load
