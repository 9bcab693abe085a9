# Run `make` to see the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# The folder of the client conformance kit, and the server it is pointed at.
KIT ?= ../shared/client-kit
KIT_ADDR ?= 127.0.0.1:18080
# More flags for the demo and the load test.
ARGS ?=
FUZZTIME ?= 20s

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## run the server on the in-memory ledger and the built-in provider
	@# Without debug information the first build takes a sixth less time.
	CGO_ENABLED=0 go run -gcflags=all=-dwarf=false ./cmd/demo-server $(ARGS)

.PHONY: test
test: ## everything CI checks; installs redis-server and gcc if they are missing
	@scripts/need.sh gcc=gcc,libc6-dev redis-server=redis-server
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	scripts/with-redis.sh go test -race -timeout 9m $$(go list ./... | grep -v /sdktest)
	go test ./transport/sdktest

.PHONY: bench
bench: ## the benchmarks of docs/benchmarks.md, each beside its reference
	@scripts/need.sh redis-server=redis-server
	scripts/with-redis.sh go test -run '^$$' -bench . -benchmem -timeout 30m \
		./ledger ./ledger/redisledger ./internal/sched ./dispatcher ./estimator/... ./cmd/demo-server

.PHONY: load
load: ## a fleet of processes against one ledger and one strict provider
	@scripts/need.sh redis-server=redis-server
	go run ./loadtest -scenario steady -procs 4 -minute 6s -duration 60s $(ARGS)

.PHONY: kit
kit: ## real SDKs against the server; needs node and the kit (KIT=DIR)
	KIT=$(KIT) KIT_ADDR=$(KIT_ADDR) scripts/kit.sh

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: lint
lint: ## golangci-lint; the first run compiles it
	go run $(GOLANGCI) run ./...
