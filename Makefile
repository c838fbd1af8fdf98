# Two commands matter: `make run` and `make test`. `make` lists the others.

export GOFLAGS += -buildvcs=false

# Without C mneme is one static file, and can drop its privileges. The race detector takes it.
export CGO_ENABLED = 0

# The race detector leaves out the code of SQLite, which is translated to Go and by far the
# slowest with it: goroutines that share a connection race in internal/sqlite, too. Else
# every process would wait a second before it ends.
RACE = -race -gcflags=github.com/ncruces/go-sqlite3-wasm/v6/...=-race=false
export GORACE += atexit_sleep_ms=20

# The tests of PARTLY in which the race detector has nothing to find. They have one goroutine
# at work, measure sizes, repeat requests at a second server, or run commands that end at once:
# what those do in several goroutines is in archive, backend, memory, cas and versionlog, and
# tests/agents and tests/use run the commands that serve with the race detector. `make check`
# runs these tests without it, `make torture` with it. A name that is not right is run with it.
# Which mounted tests have nothing for it, each package below tests says.
PARTLY = ./versionlog/dynamolog ./versionlog/sqlitelog ./cmd/mneme ./adopt ./fusefs ./archive ./versionlog ./internal/handover ./versionlog/memlog ./server/gate ./internal/testing/logfault
ONE_CALL = Stores|Events|Directories|Conflict|Paths|Read|Children|State|Import|Redact
COMMANDS = Scripts|AWS[A-Z].*|HelpExamples|TerminalIsNotSteered|Findings|Tamperings(Embedded|AWS)|UseCutOff|UndoKeepsChanges
SEQUENTIAL = PackedAtRandom|PackOnDamage|EditsAreSmall|AppendsAreSmall|KilledPacking|LossesAfter(Cut|Flip)|EraseAtRandom|CheckFindsEveryColumn|SetLen|FlippedBits|RecordDamage|RewritingTakesNoMemory
NO_RACE = ^TestLog(Forgets)?$$/^Machine$$|^TestLog$$/^dynoxide$$/^(Machine|$(ONE_CALL))$$|^TestLog$$/^DynamoDBLocal$$|^TestHotPathsAllocateLittle$$|^Test($(COMMANDS)|$(SEQUENTIAL))$$

# The number of this run of CI, see internal/testing/turn.
TURN = MNEME_TURN=$$(git rev-list --count HEAD 2>/dev/null || echo 1)

.PHONY: help build run test check mounted tools node torture bench bench-quick clean aws-up aws-down

help:            ## show this list
	@sed -n 's/^\([a-z-]*\): .*## /  make \1\t/p' Makefile

build:           ## build bin/mneme
	go build -trimpath -ldflags "-X mneme/cmd/mneme/app.buildTag=$$(git describe --tags --always --dirty 2>/dev/null) -X mneme/cmd/mneme/app.Commit=$$(git rev-parse HEAD 2>/dev/null)" -o bin/mneme ./cmd/mneme

run: build       ## mount the store notes, in the foreground
	@bin/mneme store create notes --if-missing >/dev/null
	@dir=/mnt/memory; \
	if ! grep -qs " $$dir fuse.mneme " /proc/mounts && ! { mkdir -p $$dir && [ -w $$dir ]; } 2>/dev/null; then \
		dir=$(CURDIR)/mnt/memory; \
		echo "/mnt/memory cannot be made or written by $$(id -un); using $$dir instead."; \
	fi; \
	bin/mneme mount notes --at "$$dir"

test: tools node ## run every test; installs the tools and servers they use
ifndef ONCE
	MNEME_NOSKIP=1 go test -vet=off -timeout 30m ./tests/use ./tests/conflict ./versionlog/dynamolog ./tests/crash ./tests/agents ./... # the longest first
else # beside make check, as CI does
	$(MAKE) mounted
endif

check: tools     ## gofmt, vet, staticcheck, go.mod, and every test once, where concurrency is with the race detector
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt these:" $$unformatted; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	go mod tidy -diff
	go test -vet=off -count=1 -v ./internal/archtest # prints the arrows between the files of each package, and how the mount is built
	$(TURN) CGO_ENABLED=1 MNEME_NOSKIP=1 go test -vet=off $(RACE) -timeout 40m -skip '$(NO_RACE)' $(PARTLY)
	$(TURN) CGO_ENABLED=1 MNEME_NOSKIP=1 go test -vet=off $(RACE) -timeout 40m \
		$$(go list ./... | grep -v -e /tests/ -e /archtest | grep -vxF "$$(go list $(PARTLY))")
	$(TURN) MNEME_NOSKIP=1 go test -vet=off -timeout 40m -run '$(NO_RACE)' $(PARTLY)
ifndef ONCE
	$(MAKE) mounted
endif

mounted: node
	MNEME_NOSKIP=1 MNEME_RACE=most $(TURN) go test -vet=off -p 2 -parallel 2 -timeout 60m \
		./tests/conflict ./tests/use ./tests/crash ./tests/... # the longest first

tools:
	scripts/install-test-tools.sh
	scripts/install-test-servers.sh

node:            # takes a minute, once; the checks go on meanwhile
	scripts/install-test-node.sh

torture:         ## the long forms of the suites in docs/TESTING.md; takes hours
	scripts/install-test-tools.sh
	scripts/install-test-servers.sh
	MNEME_TORTURE=1 MNEME_NOSKIP=1 go test -p 1 -count=1 -timeout 12h -v \
		-run 'Kill|Keeper|Mounts|Coherence|Races|GoSources|Terminate|Dead|PowerCut|Histories|Model|Interleavings|Parallel|Appends|Stopped|Replicas|OnAWS/(Appends|Stopped|Replicas)|SystemCalls|Fairness' ./tests/... ./memory ./fusefs
	MNEME_TORTURE=1 MNEME_NOSKIP=1 go test -count=1 -timeout 12h -v -run Tamperings ./cmd/mneme
	MNEME_TORTURE=1 MNEME_NOSKIP=1 MNEME_RACE=all go test -count=1 -timeout 12h -v -run SystemCalls ./tests/hostile
	CGO_ENABLED=1 MNEME_NOSKIP=1 go test -vet=off $(RACE) -timeout 12h ./...
	MNEME_NOSKIP=1 go test -count=1 -timeout 12h -run EveryWayToWrite ./tests/conflict
	MNEME_NOSKIP=1 MNEME_RACE=all go test -vet=off -timeout 12h ./tests/...
	go test -count=1 -timeout 12h -v -run TestLog/Machine ./versionlog/memlog ./versionlog/sqlitelog -rapid.checks=10000
	cd tests/sdk && MNEME_TORTURE=1 go test -count=1 -timeout 12h -v ./differential
	@set -e; for target in memory/FuzzParsePath memory/FuzzMerge memory/FuzzHead versionlog/FuzzDecodeRecord versionlog/FuzzLocateVersion versionlog/snapshot/FuzzOpen session/conflict/FuzzKeep server/FuzzRoutes server/access/FuzzToken gateway/wire/FuzzRequest gateway/wire/FuzzAnswer internal/quote/FuzzQuote internal/handover/FuzzParse fusefs/FuzzReadNotes witness/FuzzReadNote internal/strictjson/FuzzCheck tools/FuzzDecode pack/FuzzRender plugin/FuzzAnswer note/FuzzText mcp/FuzzURI mcp/FuzzLine archive/FuzzOpen; do \
		echo "$$target"; go test ./$${target%/*} -run '^$$' -fuzz "^$${target#*/}$$" -fuzztime 5m; \
	done

bench:           ## measure against ext4 and others, and write docs/BENCHMARKS*.md; best on an idle machine
	scripts/install-bench-tools.sh
	scripts/install-test-node.sh
	MNEME_NOSKIP=1 go test -run '^$$' -bench '^Benchmark(Reading|Writing|Agents|Past|Server)$$' -benchtime 1x -timeout 60m ./tests/bench

bench-quick:     ## the main ratios to ext4, in about a minute
	go test -run '^$$' -bench 'Quick$$' -benchtime 1x -timeout 10m ./tests/bench

aws-up: build    ## start servers of S3 and DynamoDB on this machine, to try the AWS backend
	@scripts/aws.sh up

aws-down:        ## stop them; their data stays in .aws/
	@scripts/aws.sh down

clean:           ## remove what build and test made
	rm -rf bin "$${XDG_CACHE_HOME:-$$HOME/.cache}/mneme-tests"
	go clean -testcache
