# The project's commands; `make` alone lists them. What a test needs is set up by scripts/services.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL: # cargo is parallel by itself

# What the inner loop leaves to `make test`. A test that needs a server or a collector has its name in its own; the others take most of
# a minute each: processes that are killed again and again, or share much work, and traffic for a while.
left_out := postgres pgbouncer mysql mariadb rabbitmq real_collector promtool \
	the_books_balance_whatever_dies four_processes_share_the_work the_demos_books_balance_after_a_minute
empty :=
check_tests := not test(/$(subst $(empty) ,|,$(strip $(left_out)))/)

heading = @printf '\n\033[1m▸ %s\033[0m\n' '$(1)'
server_urls = eval "$$(scripts/services urls)"

# $(call run_tests,nextest arguments,cargo test arguments): building nextest takes longer than it
# saves on a machine that lacks it. The examples, which some tests run, are built by nextest unasked.
run_tests = if cargo nextest --version >/dev/null 2>&1; \
	then cargo nextest run --locked --workspace $(1); \
	else cargo build --locked --workspace --examples && cargo test --locked --workspace --tests $(2); fi

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## see it work: a shop under traffic on SQLite; DEMO='--rate 20' adds to its command line; no servers
	$(call heading,Console)
	@$(MAKE) --no-print-directory console/dist/index.html || echo 'the console could not be built: the demo runs without it'
	$(call heading,Demo)
	@cargo run --locked --profile demo -p postrider-cli -- demo $(DEMO)

.PHONY: check
check: lint doc ## the inner loop: format, lints, docs, unit tests, memory and SQLite; no servers, no long tests
	$(call heading,Tests without servers)
	@$(call run_tests,-E '$(check_tests)',-- $(addprefix --skip ,$(left_out)))

.PHONY: test
test: services console-check lint doc ## everything, against real servers, which it starts or installs
	$(call heading,Tests)
	@$(server_urls); $(call run_tests)
	@POSTRIDER_EXECUTABLE=$$PWD/target/debug/postrider $(MAKE) --no-print-directory console-browser
	$(call heading,Bench smoke)
	@$(bench_smoke)
	@$(server_urls); target/debug/postrider-bench --smoke

# Optimised without a second build of the dependencies: those of the tests are used, which are optimised already. The example
# and the whole workspace make cargo choose the same features for them.
bench_smoke = CARGO_PROFILE_DEV_OPT_LEVEL=2 cargo build --locked --workspace --bin postrider-bench --example graceful_shutdown

# Those that are larger where POSTRIDER_SOAK is set, and those that need minutes anyway.
soak_tests := under_load|old_rows|whatever_dies|four_processes_share_the_work|kill_9|held_snapshot

.PHONY: soak
soak: services ## what takes long by its nature: load, millions of old rows, traffic and kills, the console for ten minutes; an hour
	$(call heading,Soak)
	@$(server_urls); export POSTRIDER_SOAK=1 NEXTEST_PROFILE=soak; \
		$(call run_tests,-E 'test(/$(soak_tests)/)',-- $(subst |, ,$(soak_tests)))
	@$(MAKE) --no-print-directory console-soak
	@$(MAKE) --no-print-directory fuzz

# The commit whose databases must always upgrade.
OLD := 67f2175

.PHONY: test-upgrade
test-upgrade: services ## the program of an earlier commit works and is killed, this one takes over; builds both
	$(call heading,Build of $(OLD))
	@rm -rf target/old/src && mkdir -p target/old/src && git archive $(OLD) | tar -x -C target/old/src
	@cargo build --locked --manifest-path target/old/src/Cargo.toml --target-dir target/old/build -p postrider-cli
	$(call heading,Upgrade)
	@$(server_urls); POSTRIDER_OLD_EXECUTABLE=$$PWD/target/old/build/debug/postrider cargo test --locked -p postrider-cli --test it -- upgrade::

# Seconds for each target of `make fuzz`; `make test` runs the corpus and mutations of it.
SECONDS_EACH := 300
fuzz_targets = $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))
# Named, so that the flags do not reach the build scripts.
host = $(shell rustc -vV | sed -n 's/^host: //p')
# What libFuzzer needs from the compiler.
fuzz_flags := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1

# New inputs go to target/fuzz-found. `-merge=1` adds to fuzz/corpus only those that reach something new.
.PHONY: fuzz
fuzz: ## what reads texts from outside, guided by coverage; SECONDS_EACH=n for each target; needs a C++ compiler
	$(call heading,Fuzz)
	@RUSTFLAGS="$(fuzz_flags)" cargo build --locked --release --manifest-path fuzz/Cargo.toml --target-dir target/fuzz --target $(host)
	@for target in $(fuzz_targets); do \
		echo "$$target"; mkdir -p target/fuzz-found/$$target fuzz/corpus/$$target; \
		target/fuzz/$(host)/release/$$target -max_len=2048 -timeout=10 -max_total_time=$(SECONDS_EACH) -print_final_stats=1 \
			-artifact_prefix=target/fuzz-found/ target/fuzz-found/$$target fuzz/corpus/$$target \
			crates/postrider-conformance/hostile/payloads/readable crates/postrider-conformance/hostile/payloads/unreadable \
			> target/fuzz-found/$$target.log 2>&1 || { tail -40 target/fuzz-found/$$target.log; exit 1; }; \
		grep -E 'stat::number_of_executed_units|cov:' target/fuzz-found/$$target.log | tail -2; \
	done

.PHONY: bench
bench: services ## the figures
	$(call heading,Bench)
	@$(server_urls); cargo run --locked --release -p postrider-bench

# postgres, mysql: three processes and RabbitMQ between them; sqlite: one process and nothing else.
STORE := postgres

.PHONY: playlists
playlists: $(if $(filter sqlite,$(STORE)),,services) ## users, songs and playlists: a story with its logs; STORE=sqlite: no servers
	$(call heading,Playlists)
	@cargo build --locked -p postrider-playlists
	@$(server_urls); scripts/playlists $(STORE)

.PHONY: console
console: ## build the web console; the next cargo build adds it to the executable
	$(call heading,Console)
	@$(MAKE) --no-print-directory console/dist/index.html

console_sources := $(shell find console/src console/public console/scripts -type f) \
	$(addprefix console/,index.html package.json tsconfig.json vite.config.ts)

# scripts/node finds a Node that is new enough, or installs one.
console/dist/index.html: $(console_sources) console/node_modules/.package-lock.json
	@scripts/node npm --prefix console run build

# npm writes this file last.
console/node_modules/.package-lock.json: console/package-lock.json
	@scripts/node npm --prefix console ci --no-audit --no-fund

.PHONY: console-check
console-check: console
	$(call heading,Checks of the console)
	@scripts/node npm --prefix console run check
	@scripts/node npm --prefix console test

.PHONY: console-browser
console-browser: console services ## the console in a real browser, on the real executable and on a mock
	$(call heading,Console in a browser)
	@[[ -n $${POSTRIDER_EXECUTABLE:-} ]] || cargo build --locked -p postrider-cli
	@$(server_urls); scripts/chromium scripts/node npm --prefix console run browser
	@PERF_SECONDS=10 scripts/chromium scripts/node npm --prefix console run perf

# Heap and work of the open tabs, printed; fails at twice a budget.
.PHONY: console-soak
console-soak: console services ## the console over a million events, and under traffic for ten minutes
	$(call heading,Console over a million events)
	@[[ -n $${POSTRIDER_EXECUTABLE:-} ]] || cargo build --locked -p postrider-cli
	@$(server_urls); scripts/chromium scripts/node npm --prefix console run soak

.PHONY: services
services: ## start the servers of the tests
	$(call heading,Servers)
	@scripts/services start

.PHONY: services-stop
services-stop: ## stop those it started
	@scripts/services stop

.PHONY: lint
lint:
	$(call heading,Format)
	@cargo fmt --check
	$(call heading,Lints)
	@cargo clippy --locked --workspace --all-targets -- -D warnings

# The features of the library, from its manifest: each must compile without the others.
features = $(shell sed -n '/^\[features\]/,/^\[dep/{s/^\([a-z]*\) = .*/\1/p}' crates/postrider/Cargo.toml)

.PHONY: features
features: ## the library with each feature alone
	$(call heading,Features)
	@for feature in $(features); do echo "$$feature"; cargo check --locked -q -p postrider --no-default-features --features "$$feature"; done

.PHONY: msrv
msrv: ## the oldest Rust that Cargo.toml promises; needs it from rustup
	$(call heading,Oldest Rust)
	@cargo +$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) check --locked --workspace --all-targets

.PHONY: release
release: ## the executable, its bill of materials and their checksums in dist/, from a clean tree
	$(call heading,Release)
	@scripts/release

.PHONY: deny
deny: ## known vulnerabilities, licences and sources of the dependencies; needs cargo-deny
	$(call heading,Dependencies)
	@cargo deny --locked check

.PHONY: semver
semver: ## breaking changes of the library since the last tag; needs cargo-semver-checks
	$(call heading,Compatibility)
	@if tag=$$(git describe --tags --abbrev=0 2>/dev/null); then cargo semver-checks --package postrider --baseline-rev "$$tag"; \
		else echo 'there is no tag yet to compare with'; fi

.PHONY: unused
unused: ## dependencies that nothing uses; needs cargo-machete
	$(call heading,Unused dependencies)
	@cargo machete

.PHONY: doc
doc:
	$(call heading,Docs)
	@RUSTDOCFLAGS=-Dwarnings cargo doc --locked --workspace --no-deps
	$(call heading,Doc tests)
	@cargo test --locked --doc --workspace
