# make test    everything that must hold; installs what it needs where it may
# make quick   the same tests in a minute: no race detector, miniredis only
# make demo    a scripted tour, needs only Go
# make help    the other targets

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export GOFLAGS ?= -buildvcs=false

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
GOFILES      = $$(git ls-files -co --exclude-standard '*.go' | xargs -r ls 2>/dev/null)

SEED    ?= 1
MINUTES ?= 10
PKG     ?= ./...

.PHONY: help setup test quick fmt fmt-check vet lint vuln demo agents bench chaos model cover fuzz build

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

setup: ## install what the tests need, where allowed
	@scripts/setup.sh

# One package after the other: stories with real processes want the machine to themselves.
test: setup fmt-check vet lint ## all checks and all tests, with the race detector, on a real Redis
	go build -race ./...
	@$(MAKE) --no-print-directory fuzz FUZZTIME=2000x
	ROTA_REQUIRE_REDIS=1 ROTA_REQUIRE_CHROMIUM=1 ROTA_CHAOS_MINUTES=2 go test -race -p 1 -shuffle=on -vet=off -timeout 20m $(PKG)

quick: ## all tests without race detector and real servers
	ROTA_MINIREDIS_ONLY=1 go test -short -shuffle=on $(PKG)

fmt: ## format the sources
	@gofmt -w $(GOFILES)

fmt-check:
	@unformatted=$$(gofmt -l $(GOFILES)); if [ -n "$$unformatted" ]; then \
		echo "not formatted (make fmt mends it):"; echo "$$unformatted"; exit 1; fi

vet: ## go vet, also of what only its own target builds
	go vet ./...
	go vet -tags agents,chaos ./...

lint: ## staticcheck, at a pinned version
	go run $(STATICCHECK) ./...

vuln: ## known vulnerabilities; needs the Go vulnerability database to be reachable
	go run $(GOVULNCHECK) ./...

build: ## static programs into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/worker ./cmd/enqueue

demo: ## the tour: a paired task, a 401, a handoff, a dead letter, a killed run
	go run ./cmd/worker demo

agents: ## the real agent programs against mocks of their APIs (installs them by npm, over 1 GB)
	go test -tags agents -count=1 -v -timeout 60m ./agents/
	go test -tags agents -count=1 -v -timeout 60m -run '^TestReal' ./integration/

bench: ## rota against bare asynq and others, see bench/
	cd bench && go run . $(ARGS)

chaos: setup ## faults at random on real processes: make chaos SEED=7 MINUTES=60
	ROTA_REQUIRE_REDIS=1 ROTA_CHAOS_SEED=$(SEED) ROTA_CHAOS_MINUTES=$(MINUTES) \
		go test -count=1 -timeout 0 -v ./integration/chaos/

model: ## every state of the small rota within the wide bounds: minutes and gigabytes
	ROTA_MODEL=wide go test -count=1 -timeout 0 -v -run 'Invariants|Mutations' ./model/

cover: setup ## which statements the tests reach, in .cache/cover.html
	@mkdir -p .cache
	ROTA_REQUIRE_REDIS=1 ROTA_REQUIRE_CHROMIUM=1 go test -coverpkg=./... -coverprofile=.cache/cover.out -timeout 20m $(PKG)
	@go tool cover -html=.cache/cover.out -o .cache/cover.html
	@go tool cover -func=.cache/cover.out | tail -1

# Go's fuzzer may report its own deadline as a failure ("context deadline exceeded"); a number of runs has none.
fuzz: ## every fuzz test for FUZZTIME each: 30s, or a number of runs (default 20000x)
	@grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -r -n1 dirname | sort -u | while read -r dir; do \
		grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$$dir"/*_test.go | cut -c6- | while read -r name; do \
			go test -run '^$$' -fuzz "^$$name$$" -fuzztime "$${FUZZTIME:-20000x}" -fuzzminimizetime 100x "$$dir"; done; done
