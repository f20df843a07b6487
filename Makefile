# The commands of this project. "make" lists them.

GO      ?= go
BIN     := $(CURDIR)/.bin
# A workspace of the developer's own must not change what is built here.
export GOWORK := off

GOLANGCI         := $(BIN)/golangci-lint
GOLANGCI_VERSION := 2.15.0

# The root and every nested module; ./... of one never enters another.
MODULES := $(patsubst %/go.mod,%,$(shell find . -name go.mod \
	-not -path './.*' -not -path '*/testdata/*' -not -path '*/vendor/*' | sort))
# $(call each,COMMAND) runs a command in the directory of every module and stops at a failure.
each = @set -e; for module in $(MODULES); do \
	echo "== $(1)  ($$module)"; (cd "$$module" && $(1)); done

# Servers whose absence fails a test instead of skipping it; see internal/dbtest and
# internal/testx/servers.
REQUIRE := sqlite,postgres,mariadb,redis,etcd,zookeeper
# How long each fuzz target runs.
FUZZTIME ?= 10s
# How often make bench runs each benchmark, and a pattern of names to run no others.
COUNT ?= 6
BENCH ?=

.DEFAULT_GOAL := help
# Under -j, servers first and the checks in their order all the same.
.NOTPARALLEL:
.PHONY: help test services vet lint unit race examples bench fuzz simulate tidy cover clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: services tidy vet lint race examples ## Everything that has to pass, on every database

services: ## Make sure that the servers of the tests answer: start or install them
	@scripts/services.sh

vet: ## Check formatting, and vet every module, for 32 bits as well
	@files=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +); \
	if [ -n "$$files" ]; then echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; fi
	$(call each,$(GO) vet ./...)
	@# 64-bit atomics that are not aligned, and constants that overflow an int, show only there.
	CGO_ENABLED=0 GOARCH=386 $(GO) vet ./generator/...

lint: $(GOLANGCI)-$(GOLANGCI_VERSION) ## Run the linters of .golangci.yml on every module
	$(call each,$(GOLANGCI) run --config $(CURDIR)/.golangci.yml ./...)

# The name of the stamp holds the version, so that a new one is installed when the pin changes. The
# linter may need a newer Go than this module does, hence the toolchain.
$(GOLANGCI)-$(GOLANGCI_VERSION):
	@mkdir -p $(BIN) && rm -f $(GOLANGCI)-*
	GOTOOLCHAIN=auto GOBIN=$(BIN) $(GO) install \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_VERSION)
	@touch $@

unit: ## Plain tests; a database that is absent is skipped
	$(GO) test ./...

race: ## Tests of every module with the race detector, every server required
	$(call each,SNOWFLAKE_REQUIRE=$(REQUIRE) $(GO) test -race -timeout 30m ./...)
	@# With the race detector the largest tests make a tenth of their IDs; here they make all.
	$(GO) test ./generator

examples: ## Test the examples and run the first of them
	@if [ -d examples ]; then set -ex; \
		SNOWFLAKE_REQUIRE=$(REQUIRE) $(GO) test ./examples/...; \
		$(GO) run ./examples/quickstart; \
	else echo "there are no examples yet"; fi

bench: ## Print the medians of the benchmarks beside their targets (COUNT=6, BENCH=pattern)
	@BENCH='$(BENCH)' COUNT='$(COUNT)' scripts/bench.sh

fuzz: ## Fuzz every target for a while (FUZZTIME=10s)
	@FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh

simulate: ## Run the simulation of the lease protocol over many seeds (SEEDS=1500)
	SNOWFLAKE_SIMULATE=$(or $(SEEDS),1500) $(GO) test ./lease -run Simulation -count 1 -v -timeout 60m

tidy: ## Check that every go.mod and go.sum is tidy
	$(call each,$(GO) mod tidy -diff)

cover: ## Measure what the tests cover, with the databases that answer
	$(GO) test -coverpkg=./... -coverprofile=cover.out ./...
	@$(GO) tool cover -func=cover.out | tail -n 1
	@echo "by line: $(GO) tool cover -html=cover.out"

clean: ## Remove what tests and benchmarks leave behind; the built linter stays
	rm -f cover.out
	find . -not -path './.*' \( -name '*.test' -o -name '*.prof' \) -type f -delete
