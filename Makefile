# agentd. "make run" and "make test" are the two commands to know; "make help"
# lists the rest. Every target works on a machine that has Go and make; what
# "make test" needs beyond that, "make needs" installs.

SHELL := /bin/sh
.DEFAULT_GOAL := help

GO   ?= go
STEP := sh scripts/step.sh
LINT := bin/golangci-lint
# Runs "go test" and names at the end what was skipped, and why.
LOG  := bin/testlog

# Without cgo in every pass but that of the race detector, and with the flags that go
# test has: what one pass compiled, the next ones find.
export CGO_ENABLED ?= 0
TRIM ?= -trimpath

# Arguments for "agentd serve" in "make run", for example ARGS="--listen :8701".
ARGS ?=
# How much "make test-random" tries.
CHECKS ?= 1000
# Which benchmarks "make bench" runs, and for how long each.
BENCH     ?= .
BENCHTIME ?= 1s
# No package of tests may hang for longer than this. On a fresh machine under
# load, contract took ten minutes, "npm ci" included.
TEST_TIMEOUT ?= 40m
# How many packages are tested at a time. Tests wait a good part of their time, for
# processes and disks: two for each processor keep it busy.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
PACKAGES   ?= $(shell expr 2 \* $(PROCESSORS))
# Further flags of go test, for example TESTFLAGS="-count=1 -run TestName".
TESTFLAGS ?=
# "make lint" vets everything, and with more than go test does by itself.
VET := -vet=off
# Compilers and linters spend a good part of their time on garbage: they collect it less often,
# for some more memory. Not so the tests, some of which hold agentd to what it may take.
COMPILE := -toolexec "env GOGC=400"
# What "make test" draws its random tests from: always the same, so that a change
# fails for its own sake alone. "make test-random" draws others.
SEED ?= 1

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Build agentd and run the server (ARGS="..." for its flags).
	./bin/agentd serve $(ARGS)

.PHONY: build
build: ## Build bin/agentd, static, without cgo.
	@GO=$(GO) sh scripts/go.sh
	@mkdir -p bin
	$(GO) build $(COMPILE) $(TRIM) -o bin/agentd ./cmd/agentd

.PHONY: generate
generate: ## Write everything that is generated from the catalogues.
	$(GO) run -tags bootstrap ./internal/gen/generate

.PHONY: console
console: ## Build the web console anew (needs Node.js).
	$(GO) test -count=1 ./console -run 'TestScopes|TestDist' -update

.PHONY: fmt
fmt: $(LINT) ## Format all Go files (gofumpt).
	$(LINT) fmt

.PHONY: fix
fix: $(LINT) ## Apply the fixes that linters propose, then format.
	$(LINT) run --fix ./...
	$(LINT) fmt

.PHONY: lint
lint: $(LINT) ## Formatting, go.mod, golangci-lint (go vet is one of its linters), generated files.
	@$(STEP) "Formatting (gofumpt)" $(LINT) fmt --diff
	@$(STEP) "go.mod and go.sum are tidy" $(GO) mod tidy -diff
	@$(STEP) "go vet and go.mod, bench" sh -c '$(GO) -C bench vet ./... && $(GO) -C bench mod tidy -diff'
	@$(STEP) "golangci-lint" env GOGC=200 $(LINT) run ./...
	@$(STEP) "Generated files are up to date" $(GO) run -tags bootstrap ./internal/gen/generate -check

# The script decides whether the binary is current: make knows neither the
# version of Go nor what tools/go.mod says.
.PHONY: $(LINT)
$(LINT):
	@sh scripts/lint-tool.sh

.PHONY: needs
needs: ## Install what "make test" needs beyond Go (Debian, as root): a C compiler, PostgreSQL, PgBouncer, HAProxy, Node.js, Chromium.
	@sh scripts/needs.sh

.PHONY: test
test: ## Everything that CI checks: lint and all tests but the long ones, PostgreSQL and Node.js required.
	@RAPID_SEED=$(SEED) sh scripts/phases.sh $(MAKE) --no-print-directory test-steps
	@printf '\n==> make test: everything passed\n'

# The tests of a machine that has what they need.
REQUIRE = AGENTD_TEST_POSTGRES=require AGENTD_TEST_POSTGRES_DIR=$$(sh scripts/memory-folder.sh) AGENTD_TEST_NODE=require AGENTD_TEST_BROWSER=require

# What waits runs beside what computes: packages of Debian come while compilers run, and the
# pass with the race detector, which computes for most of its time, takes what browsers,
# processes and databases leave of the processors.
.PHONY: test-steps
test-steps:
	@$(MAKE) --no-print-directory -j2 step-needs step-lint
	@$(MAKE) --no-print-directory -j2 step-plain step-race

.PHONY: step-needs
step-needs:
	@$(STEP) "What the tests need beyond Go" $(MAKE) --no-print-directory needs

.PHONY: step-lint
step-lint:
	@$(STEP) "Build" $(MAKE) --no-print-directory build TRIM=
	@$(STEP) "golangci-lint, the tool" sh scripts/lint-tool.sh
	@$(MAKE) --no-print-directory lint

.PHONY: step-plain
step-plain: $(LOG)
	@$(REQUIRE) $(STEP) "Tests without the race detector" $(MAKE) --no-print-directory test-plain

# A package for each processor: the pass beside it has two.
.PHONY: step-race
step-race: $(LOG)
	@$(REQUIRE) $(STEP) "Tests with the race detector" $(MAKE) --no-print-directory test-race PACKAGES=$(PROCESSORS)

# Always asked, because go knows better than make whether it is current.
.PHONY: $(LOG)
$(LOG):
	@mkdir -p bin
	@$(GO) build -o $(LOG) ./scripts/testlog

.PHONY: test-unit
test-unit: $(LOG) ## All quick tests, without race detector; PostgreSQL and Node.js only if they are installed.
	$(LOG) $(GO) test -timeout $(TEST_TIMEOUT) ./...

# What runs without the race detector. The tests of the whole program, of the sandbox
# and of PostgreSQL wait for processes that they start by the hundred, which the detector
# makes several times as slow; all that the program links runs in the race pass through
# the packages above it. The rest starts no goroutines, and has tests that try thousands
# of inputs. In both passes the longest packages begin first, so that the pass doesn't end
# with one of them alone.
PLAIN = ./internal/escapetest ./cmd/agentd/... ./console ./interop ./store/postgres ./internal/repotest ./internal/gen/... \
	./command ./contract ./event/... ./evidence/... ./fault ./index/usage ./permission ./redact ./state \
	./internal/netaddr ./internal/pathglob ./internal/yamlbound ./sandbox/...

.PHONY: test-plain
test-plain: $(LOG) ## The tests of the whole program, of packages without goroutines, and of allocations, without the race detector.
	$(LOG) $(GO) test $(COMPILE) $(VET) -p $(PACKAGES) $(TESTFLAGS) -timeout $(TEST_TIMEOUT) $(PLAIN)
	BUT="$(PLAIN)" GOTEST="$(LOG) $(GO) test" sh scripts/test-plain.sh short $(COMPILE) $(VET) -p $(PACKAGES) $(TESTFLAGS) -timeout $(TEST_TIMEOUT)
	$(LOG) $(GO) test $(COMPILE) $(TESTFLAGS) -tags interopfixtures -run Fixture -timeout $(TEST_TIMEOUT) ./channel/a2a ./channel/mcpserver

LONGEST = ./loop ./work ./store/pebble ./server ./tool/mcp ./session ./channel/mcpserver

# The detector needs cgo, and with cgo Pebble would compress by a library in C: to compile it
# takes a minute of a processor, and other code would be tested than is shipped.
RACE = -race -tags pebblegozstd

# Random tests of packages with goroutines make fewer rounds here: a round takes ten
# times as long, and "make test-random" makes many.
.PHONY: test-race
test-race: $(LOG) ## All other quick tests, with the race detector.
	CGO_ENABLED=1 RAPID_CHECKS=25 $(LOG) $(GO) test $(COMPILE) $(VET) $(RACE) -p $(PACKAGES) $(TESTFLAGS) -timeout $(TEST_TIMEOUT) $(LONGEST) $$($(GO) list ./... | grep -v -x $$($(GO) list $(PLAIN) | sed 's/^/-e /'))

# Tests with object storage run in the other passes too if VersityGW is in bin, and are
# named among the skipped ones if it isn't: to compile it takes more than two minutes of a
# processor.
.PHONY: test-s3
test-s3: $(LOG) ## The tests of contents in a bucket, against a real object storage, which is compiled once.
	@sh scripts/s3.sh
	AGENTD_TEST_S3=require AGENTD_TEST_POSTGRES=require $(LOG) $(GO) test $(TESTFLAGS) -timeout $(TEST_TIMEOUT) -run 'Bucket|Object|Moves|Moment|BesideOtherNodes' ./store/s3 ./store/postgres ./session ./cmd/agentd

.PHONY: test-long
test-long: $(LOG) test-s3 ## What "make test" leaves out: a thousand clients and rounds, gigabytes, a real OpenTelemetry Collector. Takes half an hour.
	GOTEST="$(LOG) $(GO) test" sh scripts/test-plain.sh long -timeout 120m
	# A real OpenTelemetry Collector, in a module of its own because it is large.
	AGENTD_TEST_LONG=1 $(LOG) $(GO) -C bench/collector test -timeout $(TEST_TIMEOUT) .

# The version that "make test-neighbours" runs this one beside: a commit or a tag.
FORMER ?=

.PHONY: test-neighbours
test-neighbours: $(LOG) ## Run nodes of a former version and of this one over one database, and update them one by one (FORMER=commit).
	@sh scripts/former.sh "$(FORMER)"
	AGENTD_TEST_FORMER=$(CURDIR)/bin/former/agentd AGENTD_TEST_LONG=1 AGENTD_TEST_POSTGRES=require $(LOG) $(GO) test -count=1 -v $(TESTFLAGS) -timeout $(TEST_TIMEOUT) -run '^TestLong(TwoVersions|TakeoverBetweenVersions)' ./cmd/agentd

# How much else the machine does during "make stress", and how often the tests run.
LOAD   ?= 8
ROUNDS ?= 3

.PHONY: stress
stress: ## All quick tests, three times beside a load of 8 (LOAD=8 ROUNDS=3): none may depend on the machine's speed.
	AGENTD_TEST_POSTGRES=require AGENTD_TEST_NODE=require AGENTD_TEST_BROWSER=require RAPID_SEED=$(SEED) sh scripts/stress.sh $(LOAD) $(ROUNDS) $(MAKE) --no-print-directory test-plain test-race TESTFLAGS=-count=1

.PHONY: cross
cross: ## Compile the program for the other systems that it runs on, and vet what is written for them.
	for system in linux/arm64 darwin/arm64 windows/amd64; do GOOS=$${system%/*} GOARCH=$${system#*/} CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/agentd || exit 1; done
	GOOS=darwin CGO_ENABLED=0 $(GO) vet ./...
	# But for tests with PostgreSQL or object storage, and those of the whole program, which need what Unix has.
	GOOS=windows CGO_ENABLED=0 $(GO) vet $$(GOOS=windows $(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | awk '!/internal\/(pgtest|s3test)/ && $$1 != "agentd/cmd/agentd" { print $$1 }')

.PHONY: test-random
test-random: ## The property tests with ten times the checks, drawn anew each time (CHECKS=1000).
	RAPID_CHECKS=$(CHECKS) $(GO) test -timeout 60m -count=1 $$($(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | awk '/pgregory.net\/rapid/ { print $$1 }')

.PHONY: bench
bench: ## Run the benchmarks of the whole and of the packages (BENCH=pattern BENCHTIME=1s).
	$(GO) -C bench test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -timeout 60m ./...
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem ./...

.PHONY: escape
escape: ## Try to escape from the sandbox as an agent would, and print what this machine enforces.
	$(GO) test -count=1 -v -run 'TestEscapes|TestHookEscapes|TestServerEscapes|TestReadRoots|TestAttempts|TestOutputFlood|TestNothingOutlives|TestKilledServer|TestSecrets|TestTheSearch|TestRules|TestDenied|TestShellPrograms' ./internal/escapetest

.PHONY: fuzz-shell
fuzz-shell: ## Run 100,000 random shell programs under a rule that denies one program; its mark must never appear.
	AGENTD_TEST_PROGRAMS=100000 $(GO) test -count=1 -v -timeout 240m -run TestManyShellPrograms ./internal/escapetest

.PHONY: bench-peers
bench-peers: ## Turns over HTTP beside goose, codex and River (installs the peers with npm into a temporary folder).
	AGENTD_BENCH_NPM=1 $(GO) -C bench test -run '^$$' -bench 'Turns|Peers' -benchtime 1x -timeout 30m ./peers
	$(GO) -C bench test -run '^$$' -bench FirstToken -benchtime 100x .
	$(GO) -C bench test -run '^$$' -bench 'Streams|LongThread' -benchtime 1x -timeout 30m .

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin
