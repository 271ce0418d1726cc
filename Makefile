# Two commands on a fresh machine: `make run` and `make test`. The rest is for developers (CONTRIBUTING.md).
.PHONY: run test check bench peers format clean build

# Builds build/heed, walks through an attention, grades what a set of notes prints for it (6: mistakes were found),
# writes the walkthrough as a page, then measures.
run: build
	build/heed attend --example cats
	build/heed check examples/notes/cats.toml || [ $$? -eq 6 ]
	build/heed attend --example cats --html build/cats.html
	@echo "build/cats.html is the same as a page: open it in a browser"
	build/heed bench attention --quick --case forward

# Builds and runs every test on every instruction set of this machine.
test: build
	ctest --preset release --progress -j $(shell nproc)

# Everything a change has to pass besides the tests: format, lint, layers, sanitizers, package, README.
check:
	tools/setup build check
	tools/setup page || echo "make check: the page's tests will be skipped"
	tools/check

bench: build
	tools/setup bench
	build/heed bench attention
	build/heed bench matmul

# The same rows in PyTorch and ONNX Runtime, in alternation on the same cores.
peers: build
	tools/setup peers
	tools/peers/compare

format:
	tools/setup check
	tools/format

build:
	@tools/setup build
	@cmake --preset release >/dev/null
	cmake --build --preset release

clean:
	rm -rf build build-*
