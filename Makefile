# Two commands on a fresh machine: `make run` and `make test`. The rest is for developers (CONTRIBUTING.md).
.PHONY: run test check bench peers exactness format clean build program

# Builds build/heed and nothing else, walks through an attention, grades what a set of notes prints for it (6: mistakes
# were found), writes the walkthrough as a page, then measures.
run:
	@echo "make run: builds build/heed (once; about 4 minutes on 2 cores), walks through an attention of four words,"
	@echo "grades the same example from a set of notes, writes it as a page, and measures speed (about a minute)."
	@$(MAKE) --no-print-directory program
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

bench: program
	tools/setup bench
	build/heed bench attention
	build/heed bench matmul

# The same rows in PyTorch and ONNX Runtime, in alternation on the same cores.
peers: program
	tools/setup peers
	tools/peers/compare

# The errors of f32 attention against float64, beside PyTorch's, on the same inputs.
exactness:
	tools/setup build peers
	tools/exactness/measure

format:
	tools/setup check
	tools/format

build:
	@tools/setup build
	@cmake --preset release >/dev/null
	cmake --build --preset release

program:
	@tools/setup build
	@cmake --preset release >/dev/null
	cmake --build --preset release --target heed_program

clean:
	rm -rf build build-*
