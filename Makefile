# The verbs; cmd/mkbox does the work, in Go. `make` alone lists them.

# Debian's Go keeps to its own version unless told otherwise; auto takes the one that go.mod names. Before 1.21 (Debian 12) Go can't do
# that, but it can fetch a newer Go, which is a module like any other: .cache/go is a link to it.
export GOTOOLCHAIN := auto
export PATH := $(CURDIR)/.cache/go/bin:$(PATH):/usr/local/go/bin:/usr/lib/go/bin
modern := go1\.(2[1-9]|[3-9][0-9])|go[2-9]

mkbox := bin/mkbox

.DEFAULT_GOAL := help
.PHONY: help build run dev image check test test-all mutate bench clean mkbox

help:    ## this list
	@sed -n 's/^\([a-z-]*\): .*## /  make \1\t/p' Makefile | expand -t 20

build: mkbox   ## static programs into bin/ and the file system that tasks see
	@$(mkbox) build

run: mkbox     ## build, boot the box in QEMU, show its address (ARGS=--fresh for a new data disk)
	@$(mkbox) run $(ARGS)

dev: mkbox     ## build and start boxd on this machine, as root, without QEMU
	@$(mkbox) dev $(ARGS)

image: mkbox   ## the bootable system disk (ARGS=--why tells what would be built anew)
	@$(mkbox) image $(ARGS)

check: mkbox   ## the quick loop, under 3 minutes: build, vet, short tests
	@$(mkbox) check $(ARGS)

test: mkbox    ## everything that guards a change; ends with the count
	@$(mkbox) test $(ARGS)

test-all: mkbox ## the long forms too (more power cuts, races); results in docs/reliability.md
	@$(mkbox) test --all $(ARGS)

mutate: mkbox  ## break each guard on purpose: its test must notice
	@$(mkbox) mutate $(ARGS)

bench: mkbox   ## measure, and write docs/performance.md
	@$(mkbox) bench $(ARGS)

clean:   ## remove what was built, but not the data disk in .box/
	rm -rf bin .cache

# Go itself is the one thing that Go can't bring.
mkbox:
	@command -v go >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get -qq update && apt-get -qq install -y --no-install-recommends golang-go ca-certificates; } || { echo "Install Go 1.19 or newer (on Debian, as root: apt-get install golang-go)." >&2; exit 1; }
	@go version >/dev/null # brings the release that go.mod names, or says why it can't
	@go version | grep -qE '$(modern)' || { mkdir -p .cache && new=golang.org/toolchain@v0.0.1-$$(sed -n 's/^toolchain //p' go.mod).linux-amd64 && \
		dir=$$(cd / && go mod download -json $$new | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && test -d "$$dir" && \
		chmod +x "$$dir"/bin/* "$$dir"/pkg/tool/*/* && ln -sfn "$$dir" .cache/go; } || true
	@go version | grep -qE '$(modern)' || { echo "$$(go version | cut -d' ' -f3) is too old, and a newer one could not be fetched: install Go 1.21 or newer, it brings the version it needs by itself." >&2; exit 1; }
	@CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" -o $(mkbox) ./cmd/mkbox
