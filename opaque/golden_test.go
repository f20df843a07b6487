package opaque_test

// Texts under the first key of the tests.
const (
	sealedOne   = "6pZL6MyBZji8K3WXe5dq1P"
	sealedLarge = "0d7cuLZQz3r4LaeBDPRwly"

	keyedLarge = "4LsOjUq30kB6k1hzWtM5Ny" // with a keyed tag
)
