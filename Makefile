# These are the commands of this project. "make" lists them.

GO      ?= go
BIN     := $(CURDIR)/.bin
# A go.work of the developer must not change what is built here.
export GOWORK := off

GOLANGCI         := $(BIN)/golangci-lint
GOLANGCI_VERSION := 2.15.0

# These are the root and every nested module. The pattern ./... of one module never enters another.
MODULES := $(patsubst %/go.mod,%,$(shell find . -name go.mod \
	-not -path './.*' -not -path '*/testdata/*' -not -path '*/vendor/*' | sort))
# $(call each,COMMAND) runs a command in the directory of every module and stops at a failure.
each = @set -e; for module in $(MODULES); do \
	echo "== $(1)  ($$module)"; (cd "$$module" && $(1)); done

# Every server of the tests. If one that SNOWFLAKE_REQUIRE names is absent, a test fails instead of being
# skipped. See test/dbtest and test/servers.
REQUIRE := sqlite,postgres,mariadb,mysql,redis,etcd,zookeeper
# GOTOOLCHAIN needs a full version, so this is the latest patch release of the Go version in go.mod.
DECLARED_GO := 1.25.12
# FUZZTIME is how long each fuzz target runs.
FUZZTIME ?= 10s
# COUNT is how often make bench runs each benchmark. BENCH is a pattern that selects benchmarks.
COUNT ?= 6
BENCH ?=

.DEFAULT_GOAL := help
# Under -j, the servers still come first and the checks still run in order.
.NOTPARALLEL:
.PHONY: help test check nightly services vet lint unit declared race examples bench evidence keys fuzz simulate chaos count reshard load generate generated tidy cover clean hostile mail tidb

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## Run the tests of tier one, after the servers that they need were started or installed
	@$(GO) run ./test/testrun -services

check: tidy generated vet lint declared examples ## Check format, vet, linters, go.mod, generated code and the declared Go version

nightly: ## Run everything that is statistical, exhaustive or slow: hours (PARTS="tests fuzz")
	@PARTS='$(PARTS)' scripts/nightly.sh

services: ## Start or install all servers and programs of the tests
	@scripts/services.sh postgres mariadb mysql redis etcd zookeeper pgbouncer chromium languages >/dev/null

vet: ## Check formatting, and vet every module, also for 32 bits
	@files=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +); \
	if [ -n "$$files" ]; then echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; fi
	$(call each,$(GO) vet ./...)
	@# Only this finds unaligned 64-bit atomics and constants that overflow an int.
	CGO_ENABLED=0 GOARCH=386 $(GO) vet . ./generator/... ./internal/... ./lease/... ./segment/... ./test/filling

lint: $(GOLANGCI)-$(GOLANGCI_VERSION) ## Run the linters of .golangci.yml on every module
	$(call each,$(GOLANGCI) run --config $(CURDIR)/.golangci.yml ./...)

# The version is part of the name of the stamp, so a changed pin installs the new version. The
# linter may need a newer Go than this module, so GOTOOLCHAIN is auto.
$(GOLANGCI)-$(GOLANGCI_VERSION):
	@mkdir -p $(BIN) && rm -f $(GOLANGCI)-*
	GOTOOLCHAIN=auto GOBIN=$(BIN) $(GO) install \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_VERSION)
	@touch $@

unit: ## Run plain tests; tests of an absent database are skipped
	$(GO) test ./...

# With a language version of its own in go.mod, a newer compiler refuses what is newer in the language. What is
# newer in the standard library only the old one finds. No test runs: the compiler is what differs.
declared: ## Compile every package and test on the Go version of go.mod
	@grep -q '^go $(basename $(DECLARED_GO))\.' go.mod || \
		{ echo "DECLARED_GO is $(DECLARED_GO), but go.mod says: $$(grep '^go ' go.mod)"; exit 1; }
	GOTOOLCHAIN=go$(DECLARED_GO) $(GO) vet ./...

race: ## Run every test of every module with the race detector, as at night
	SNOWFLAKE_REQUIRE=$(REQUIRE) $(GO) run ./test/testrun -nightly

examples: ## Build the examples, and run the first of them
	$(GO) build -o /dev/null ./examples/... && $(GO) run ./examples/quickstart

bench: ## Print the medians of the benchmarks and their targets (COUNT=6, BENCH=pattern)
	@BENCH='$(BENCH)' COUNT='$(COUNT)' scripts/bench.sh

evidence: services ## Write the tables and plots of docs/benchmarks.md anew
	@PAGE=docs/benchmarks.md COUNT='$(COUNT)' scripts/bench.sh
	cd bench && $(GO) run . -out results -page ../docs/benchmarks.md
	@$(MAKE) keys

keys: services ## Compare kinds of keys on every database, and write their tables (ROWS=1000000)
	cd bench && SNOWFLAKE_KEYS=$(or $(ROWS),1000000) SNOWFLAKE_REQUIRE=$(REQUIRE) \
		$(GO) test ./keys -run TestMeasureKeys -count 1 -v -timeout 600m

fuzz: ## Fuzz every target for a while (FUZZTIME=10s)
	@FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh

tidb: ## Build TiDB once, and run the tests of the plugin, leases and command on it (SECONDS=60)
	@LENGTH='$(or $(SECONDS),60)' scripts/tidb.sh test

simulate: ## Run the simulations of leases and of counters over many seeds (SEEDS=400)
	SNOWFLAKE_SIMULATE=$(or $(SEEDS),400) $(GO) test ./lease ./segment -run Simulation -count 1 -v -timeout 60m

chaos: ## Disturb processes and servers, and check the IDs (STORE=postgres, SECONDS=180, SEED=)
	@# The shell has a SECONDS of its own, hence another name.
	@STORE='$(or $(STORE),all)' LENGTH='$(or $(SECONDS),180)' SEED='$(SEED)' scripts/chaos.sh

count: ## Disturb processes that take numbers from counters (STORE=postgres, SECONDS=180, SEED=)
	@WHAT=counters STORE='$(or $(STORE),all)' LENGTH='$(or $(SECONDS),180)' SEED='$(SEED)' scripts/chaos.sh

reshard: ## Interrupt reshardings at every step, and compare all rows afterwards
	SNOWFLAKE_NIGHTLY=1 SNOWFLAKE_REQUIRE=$(REQUIRE) \
		$(GO) test ./internal/reshard ./test/resharding -count 1 -v -timeout 60m

load: ## Measure the service, and kill its processes and its database (LOAD=60s)
	cd server && SNOWFLAKE_REQUIRE=$(REQUIRE) SNOWFLAKE_LOAD=$(or $(LOAD),60s) \
		$(GO) test ./internal/load -count 1 -v -timeout 60m

hostile: ## Merge random hostile schemas on every database (SEEDS=200)
	SNOWFLAKE_HOSTILE=$(or $(SEEDS),200) SNOWFLAKE_REQUIRE=$(REQUIRE) \
		$(GO) test ./merge -run Hostile -count 1 -v -timeout 600m

mail: ## Merge and verify 2,000,000 rows a server, and print the memory (ROWS=2000000)
	SNOWFLAKE_MAIL=$(or $(ROWS),2000000) SNOWFLAKE_REQUIRE=$(REQUIRE) \
		$(GO) test ./merge -run TestMailOfAnySize -count 1 -v -timeout 300m

tidy: ## Check that every go.mod and go.sum is tidy
	$(call each,$(GO) mod tidy -diff)

generate: ## Generate the code of the .proto files of the service again
	cd server && $(GO) run ./internal/protogen .

generated: ## Check that the generated code is fresh
	@fresh=$$(mktemp -d); cd server && $(GO) run ./internal/protogen "$$fresh" && \
		diff -r "$$fresh/snowflakev1" snowflakev1 || { echo 'run "make generate" and commit the result'; exit 1; }; \
		rm -r "$$fresh"

cover: ## Measure test coverage with the databases that answer
	$(GO) test -coverpkg=./... -coverprofile=cover.out ./...
	@$(GO) tool cover -func=cover.out | tail -n 1
	@echo "by line: $(GO) tool cover -html=cover.out"

clean: ## Remove the files of tests and benchmarks, but not the built linter
	rm -f cover.out
	find . -not -path './.*' \( -name '*.test' -o -name '*.prof' \) -type f -delete
