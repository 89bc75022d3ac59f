# agentd. "make run" and "make test" are the two commands to know; "make help"
# lists the rest. Every target works on a machine that has Go and make; what
# the tests need beyond that, scripts/ installs.

SHELL := /bin/sh
.DEFAULT_GOAL := help

GO   ?= go
STEP := sh scripts/step.sh
LINT := bin/golangci-lint

# Arguments for "agentd serve" in "make run", for example ARGS="--listen :8701".
ARGS ?=
# Which benchmarks "make bench" runs, and for how long each.
BENCH     ?= .
BENCHTIME ?= 1s
# No package of tests may hang for longer than this.
TEST_TIMEOUT ?= 12m

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Build agentd and run the server (ARGS="..." for its flags).
	./bin/agentd serve $(ARGS)

.PHONY: build
build: ## Build bin/agentd, static, without cgo.
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/agentd ./cmd/agentd

.PHONY: generate
generate: ## Write everything that is generated from the catalogues.
	$(GO) run -tags bootstrap ./internal/gen/generate

.PHONY: fmt
fmt: $(LINT) ## Format all Go files (gofumpt).
	$(LINT) fmt

.PHONY: fix
fix: $(LINT) ## Apply the fixes that linters propose, then format.
	$(LINT) run --fix ./...
	$(LINT) fmt

.PHONY: lint
lint: $(LINT) ## Formatting, go.mod, go vet, golangci-lint, generated files.
	@$(STEP) "Formatting (gofumpt)" $(LINT) fmt --diff
	@$(STEP) "go.mod and go.sum are tidy" $(GO) mod tidy -diff
	@$(STEP) "go vet" $(GO) vet ./...
	@$(STEP) "go vet and go.mod, bench" sh -c '$(GO) -C bench vet ./... && $(GO) -C bench mod tidy -diff'
	@$(STEP) "golangci-lint" $(LINT) run ./...
	@$(STEP) "Generated files are up to date" $(GO) run -tags bootstrap ./internal/gen/generate -check

# The script decides whether the binary is current: make knows neither the
# version of Go nor what tools/go.mod says.
.PHONY: $(LINT)
$(LINT):
	@sh scripts/lint-tool.sh

.PHONY: test
test: ## Everything that CI checks: lint, all tests with the race detector, long tests, PostgreSQL and Node.js required.
	@$(STEP) "C compiler for the race detector" sh scripts/compiler.sh
	@$(STEP) "PostgreSQL binaries" sh scripts/postgres.sh
	@$(STEP) "Node.js for the contract tests" sh scripts/node.sh
	@$(STEP) "Build" $(MAKE) --no-print-directory build
	@$(STEP) "golangci-lint, the tool" sh scripts/lint-tool.sh
	@$(MAKE) --no-print-directory lint
	@AGENTD_TEST_POSTGRES=require AGENTD_TEST_NODE=require $(STEP) "Tests with the race detector" $(MAKE) --no-print-directory test-race
	@AGENTD_TEST_POSTGRES=require AGENTD_TEST_NODE=require $(STEP) "Long tests and tests that the race detector disturbs" $(MAKE) --no-print-directory test-long
	@printf '\n==> make test: everything passed\n'

.PHONY: test-unit
test-unit: ## All quick tests, without race detector; PostgreSQL and Node.js only if they are installed.
	$(GO) test -timeout $(TEST_TIMEOUT) ./...

.PHONY: test-race
test-race: ## All quick tests with the race detector; those of the whole program without.
	CGO_ENABLED=1 $(GO) test -race -timeout $(TEST_TIMEOUT) $$($(GO) list ./... | grep -v -e '/cmd/agentd$$' -e '/interop$$')
	# These tests start the program hundreds of times, which the race detector makes
	# four times as slow; all that it links has run with the detector above.
	$(GO) test -timeout $(TEST_TIMEOUT) ./cmd/agentd ./interop

.PHONY: test-long
test-long: ## What test-race leaves out: many rounds of kill -9, allocation counts.
	sh scripts/test-plain.sh -timeout $(TEST_TIMEOUT)
	# A real OpenTelemetry Collector, in a module of its own because it is large.
	AGENTD_TEST_LONG=1 $(GO) -C bench/collector test -timeout $(TEST_TIMEOUT) .

.PHONY: bench
bench: ## Run the benchmarks of the whole and of the packages (BENCH=pattern BENCHTIME=1s).
	$(GO) -C bench test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -timeout 60m ./...
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem ./...

.PHONY: escape
escape: ## Try to escape from the sandbox as an agent would, and print what this machine enforces.
	$(GO) test -count=1 -v -run 'TestEscapes|TestAttempts|TestOutputFlood|TestNothingOutlives|TestSecrets' ./internal/escapetest

.PHONY: bench-peers
bench-peers: ## Turns over HTTP beside goose, codex and River (installs the peers with npm into a temporary folder).
	AGENTD_BENCH_NPM=1 $(GO) -C bench test -run '^$$' -bench 'Turns|Peers' -benchtime 1x -timeout 30m ./peers
	$(GO) -C bench test -run '^$$' -bench FirstToken -benchtime 100x .
	$(GO) -C bench test -run '^$$' -bench 'Streams|LongThread' -benchtime 1x -timeout 30m .

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin
