# Everything there is to do with this project, in one word each. `make` alone lists it.
# Variables: CARGO, CC, CXX; PREFIX, LIBDIR, INCLUDEDIR, DESTDIR, STATIC=0, COMPAT=1 (install, uninstall); TF=path/to/site-packages/tensorflow (compare);
# MUTANTS (fuzz); TESTS="name name", some of the programs in capi_tests/ (capi-tests, capi-memcheck, compare).

CARGO ?= cargo
CC ?= cc
CXX ?= c++
PREFIX ?= /usr/local

TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILD := build
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

CFLAGS := -std=c11 -O1 -g -Wall -Wextra -Werror
TESTS := $(filter-out headers,$(basename $(notdir $(sort $(wildcard capi_tests/*.c)))))
TEST_HEADERS := $(wildcard capi_tests/*.h)
HEADERS := $(patsubst include/%,%,$(shell find include -name '*.h' 2>/dev/null))

# Every program here is linked with build/<profile>/lib, where the library lies under its soname.
DEBUG := $(BUILD)/debug
RELEASE := $(BUILD)/release
link = -L$(1)/lib -ltfcore -Wl,-rpath,$(abspath $(1)/lib) -pthread -ldl -lm

need_cargo = command -v $(CARGO) >/dev/null || { echo "cargo is missing. Install Rust from https://rustup.rs"; exit 1; }
need_cc = command -v $(CC) >/dev/null || { echo "$(CC) is missing. Install gcc or clang"; exit 1; }

.PHONY: help
help:
	@echo "make demo        build the library, run the examples, leave a picture"
	@echo "make test        all tests: Rust, C (also under valgrind), conformance, damaged graphs, endurance in short, headers, symbols"
	@echo "make capi-tests  the C tests alone; TESTS=name for one of them"
	@echo "make compare     the C tests against this library and a TensorFlow wheel: TF=path/to/tensorflow"
	@echo "make bench       benchmarks"
	@echo "make endurance   a million runs and all that: nothing grows; a short form is part of make test"
	@echo "make loom        what threads do to each other, in every order that loom can think of"
	@echo "make fuzz        MUTANTS=100000 damaged graphs, and the tests that feed damaged bytes to the parsers"
	@echo "make install     PREFIX=/usr/local, LIBDIR; STATIC=0 leaves libtfcore.a out; COMPAT=1 adds the names of TensorFlow's libraries"
	@echo "make uninstall   removes what install with the same variables has written"
	@echo "make headers     write include/ anew"
	@echo "make lint        formatting, clippy, imports, what the documents say"
	@echo "make clean       remove what was built"

# ---- the library ----

# Phony: cargo knows best what is out of date.
.PHONY: debug release
# The whole workspace, as the tests build it: for one package alone the features of shared dependencies differ (`bitflags`,
# below everything), and cargo would build all of them a second time.
debug:
	@$(need_cargo)
	$(CARGO) build --workspace
	@$(call place,debug,$(DEBUG))

release:
	@$(need_cargo)
	$(CARGO) build --release
	@$(call place,release,$(RELEASE))

# cargo's file under the names the linker and the loader look for; replaced only when it has changed.
define place
mkdir -p $(2)/lib && \
  { cmp -s $(TARGET)/$(1)/libtfcore.so $(2)/lib/libtfcore.so.2 || cp $(TARGET)/$(1)/libtfcore.so $(2)/lib/libtfcore.so.2; } && \
  ln -sf libtfcore.so.2 $(2)/lib/libtfcore.so
endef

$(DEBUG)/lib/libtfcore.so.2: | debug
$(RELEASE)/lib/libtfcore.so.2: | release

# ---- tests ----

.PHONY: test cargo-test capi-tests capi-memcheck conformance mutate-check endurance-check headers-check symbols-check install-check
test: cargo-test capi-tests capi-memcheck conformance mutate-check endurance-check headers-check symbols-check install-check
	@echo "all tests passed"

cargo-test:
	@$(need_cargo)
	$(CARGO) test --workspace

# Plug-ins that tests load: the example and those of the tests. They name no library: the program that loads them has the
# functions.
PLUGINS := $(patsubst %.c,$(BUILD)/plugin/lib%.so,$(notdir $(wildcard examples_c/plugin/*.c capi_tests/plugins/*.c)))

vpath %.c examples_c/plugin capi_tests/plugins

$(BUILD)/plugin/lib%.so: %.c $(HEADERS:%=include/%)
	@$(need_cc)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -shared -fPIC -Iinclude $< -o $@

# Runs programs one by one: $(call run_all,names,directory,prefix of the command).
define run_all
@for name in $(1); do printf '%-10s ' $$name; $(3) $(2)/$$name || exit 1; done
endef

capi-tests: $(PLUGINS) $(TESTS:%=$(DEBUG)/capi/%)
	$(call run_all,$(TESTS),$(DEBUG)/capi)

$(DEBUG)/capi/%: capi_tests/%.c $(TEST_HEADERS) $(DEBUG)/lib/libtfcore.so.2
	@$(need_cc)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iinclude $< -o $@ $(call link,$(DEBUG))

ifneq ($(shell command -v valgrind),)
# One thread runs at a time: without fair turns one that is busy keeps the others from theirs.
MEMCHECK := valgrind -q --fair-sched=yes --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite
# What runs itself anew would get valgrind in its place.
MEMCHECKED := $(filter-out save_killed,$(TESTS))
capi-memcheck: $(PLUGINS) $(MEMCHECKED:%=$(DEBUG)/capi/%)
	@echo "under valgrind:"
	$(call run_all,$(MEMCHECKED),$(DEBUG)/capi,$(MEMCHECK))
else
capi-memcheck: $(PLUGINS) $(TESTS:%=$(DEBUG)/capi-asan/%)
	@echo "with the address sanitizer:"
	$(call run_all,$(TESTS),$(DEBUG)/capi-asan)
endif

$(DEBUG)/capi-asan/%: capi_tests/%.c $(TEST_HEADERS) $(DEBUG)/lib/libtfcore.so.2
	@$(need_cc)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -fsanitize=address -fno-omit-frame-pointer -Iinclude $< -o $@ $(call link,$(DEBUG))

conformance: release
	$(CARGO) run --release -p tfcore-conformance -- --lib $(RELEASE)/lib/libtfcore.so.2

# Damaged graphs and feeds: no crash, no hang, no half import, no panic. $(call mutate,count,seed)
define mutate
$(CARGO) run -q --release -p tfcore-conformance -- mutate --lib $(RELEASE)/lib/libtfcore.so.2 \
  --count $(1) --seed $(2) --memory-limit 4294967296 --timeout 60
endef

mutate-check: release
	$(call mutate,3000,1)

# A hundredth of `make endurance`.
endurance-check: $(RELEASE)/endurance
	$< 100

$(RELEASE)/endurance: tests/endurance/endurance.c $(TEST_HEADERS) $(RELEASE)/lib/libtfcore.so.2
	@$(need_cc)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iinclude $< -o $@ $(call link,$(RELEASE))

# As the C functions make them; each header alone, in both languages; then all of them together.
headers-check:
	@$(need_cargo)
	@$(need_cc)
	$(CARGO) run -q -p tfcore-headers -- --check
	@for header in $(HEADERS); do \
	  echo "#include \"$$header\"" | $(CC) $(CFLAGS) -Iinclude -fsyntax-only -x c - || exit 1; \
	  ! command -v $(CXX) >/dev/null || \
	  echo "#include \"$$header\"" | $(CXX) -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ - || exit 1; \
	done
	@$(CC) $(CFLAGS) -Iinclude -fsyntax-only capi_tests/headers.c
	@! command -v $(CXX) >/dev/null || $(CXX) -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only capi_tests/headers.cpp
	@echo "headers: $(words $(HEADERS)) are C11 and C++17"

symbols-check: release
	tools/symbols/check.sh $(RELEASE)/lib/libtfcore.so.2

# Installed without cargo, used as TensorFlow, and removed without a trace.
install-check: release
	@to="$(BUILD)/installed"; rm -rf $$to && mkdir -p $$to && \
	  $(MAKE) -s install CARGO=false PREFIX=$(abspath $(BUILD))/installed LIBDIR=$(abspath $(BUILD))/installed/lib64 COMPAT=1 && \
	  $(CC) examples_c/hello_tf.c -I$$to/include -L$$to/lib64 -ltensorflow -o $$to/hello && \
	  readelf -d $$to/hello | grep -q 'NEEDED.*\[libtensorflow\.so\.2\]' && \
	  LD_LIBRARY_PATH=$$to/lib64 $$to/hello >/dev/null && rm $$to/hello && \
	  $(MAKE) -s uninstall PREFIX=$(abspath $(BUILD))/installed LIBDIR=$(abspath $(BUILD))/installed/lib64 && \
	  test -z "$$(find $$to ! -type d)" || { echo "install-check failed"; exit 1; }
	@echo "installed, used in the place of TensorFlow, and removed"

# ---- side by side with TensorFlow ----

REFERENCE := $(BUILD)/reference

.PHONY: compare reference
compare: reference capi-tests $(TESTS:%=$(REFERENCE)/%) exchange
	@echo "against TensorFlow:"
	$(call run_all,$(TESTS),$(REFERENCE),TF_CPP_MIN_LOG_LEVEL=3 TF_ENABLE_ONEDNN_OPTS=0)
	TF=$(TF) $(CARGO) test -q -p tfcore-headers bindings_agree -- --nocapture

# Checkpoints that one library writes the other reads, and the files of both are the same.
.PHONY: exchange
exchange: reference $(DEBUG)/capi/exchange $(REFERENCE)/exchange
	@rm -rf $(BUILD)/exchange && mkdir -p $(BUILD)/exchange
	@for program in $(DEBUG)/capi $(REFERENCE) $(DEBUG)/capi; do \
	  EXCHANGE=$(BUILD)/exchange TF_CPP_MIN_LOG_LEVEL=3 $$program/exchange || exit 1; \
	done
	@cd $(BUILD)/exchange && for file in tfcore*; do cmp $$file tensorflow$${file#tfcore} || exit 1; done
	@echo "checkpoints of both libraries are the same, byte for byte"

reference:
	@test -e "$(TF)/libtensorflow_cc.so.2" || { \
	  echo "TF is not the directory of a TensorFlow wheel. pip install tensorflow-cpu==2.21.0, then"; \
	  echo "make compare TF=.../site-packages/tensorflow"; exit 1; }

$(REFERENCE)/%: capi_tests/%.c $(TEST_HEADERS) | reference
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Iinclude $< -o $@ $(TF)/libtensorflow_cc.so.2 $(TF)/libtensorflow_framework.so.2 \
	  -Wl,-rpath,$(abspath $(TF)) -pthread -ldl

# ---- the rest ----

EXAMPLES := hello_tf linear segment

.PHONY: demo examples bench endurance loom fuzz headers lint docs-check layers-check clean
demo:
	@echo "[1/4] building the library"
	@$(MAKE) --no-print-directory -s examples
	@echo "[2/4] hello_tf"
	@$(RELEASE)/examples/hello_tf
	@echo "[3/4] linear"
	@$(RELEASE)/examples/linear
	@echo "[4/4] segment"
	@$(RELEASE)/examples/segment examples_c/data/selfie_segmentation.pb examples_c/data/astronaut.ppm $(BUILD)/person.png
	@echo "done: look at $(BUILD)/person.png"

examples: $(EXAMPLES:%=$(RELEASE)/examples/%)

$(RELEASE)/examples/%: examples_c/%.c examples_c/picture.h $(RELEASE)/lib/libtfcore.so.2
	@$(need_cc)
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -Wall -Wextra -Iinclude $< -o $@ $(call link,$(RELEASE))

# The bench targets alone: libraries would answer with empty test harnesses.
bench:
	@$(need_cargo)
	$(CARGO) bench --workspace --bench '*'

# A million runs, ten thousand sessions and graphs, and so on: memory, threads and files must stay as they are.
endurance: $(RELEASE)/endurance
	$< 1

# The pool, the queue of a step, the countdown and the cancellation, with loom's locks and atomics; seconds, but a build of
# its own. More orders: make loom PREEMPTIONS=5.
PREEMPTIONS ?= 3
loom:
	@$(need_cargo)
	RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=$(PREEMPTIONS) $(CARGO) test --target-dir $(TARGET)/loom \
	  -p tfcore-math -p tfcore-framework -p tfcore-runtime --lib loom_tests

MUTANTS ?= 100000

# The long run: a fifth of the mutants for each of five seeds. Others: make fuzz SEEDS="11 12 13 14 15".
SEEDS ?= 1 2 3 4 5
fuzz: release
	$(CARGO) test --release --workspace -- damaged hostile fuzz
	@for seed in $(SEEDS); do $(call mutate,$$(($(MUTANTS) / 5)),$$seed) || exit 1; done

headers:
	@$(need_cargo)
	$(CARGO) run -p tfcore-headers

lint: docs-check layers-check
	@$(need_cargo)
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

docs-check:
	.ci/docs

# No circle of imports between the files of a crate.
LAYERED := framework graph plan runtime
layers-check:
	@$(need_cargo)
	$(CARGO) run -q -p tfcore-layers -- $(LAYERED:%=src/%/src/lib.rs)

clean:
	rm -rf $(BUILD)
	-$(CARGO) clean

# ---- installation ----

# Directories as programs see them; DESTDIR goes before them where files are written.
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
TO_LIB = $(DESTDIR)$(LIBDIR)
TO_INCLUDE = $(DESTDIR)$(INCLUDEDIR)
STATIC ?= 1
COMPAT_LIBRARIES := libtensorflow libtensorflow_cc libtensorflow_framework

# $(call pkg_config,name,library): the file that tells compilers and linkers where things are.
pkg_config = printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$(INCLUDEDIR)' '' 'Name: $(1)' \
  'Description: TensorFlow C API' 'Version: $(VERSION)' 'Libs: -L$${libdir} -l$(2)' 'Libs.private: -lpthread -ldl -lm' \
  'Cflags: -I$${includedir}' > $(TO_LIB)/pkgconfig/$(1).pc

# A stub for linkers, under the soname of TensorFlow's library: a program linked against it asks the loader for that name, and so
# runs with either library. A program that opens the stub itself gets our functions, since it is a filter for our library.
# $(call stub,name)
stub = nm -D --defined-only $(TARGET)/release/libtfcore.so | awk '$$2 ~ /[TW]/ { print "void " $$3 "(void) { __builtin_trap(); }" }' | \
  $(CC) -w -fno-builtin -shared -nostdlib -x c - -Wl,-soname,$(1).so.2 -Wl,-F,libtfcore.so.2 -Wl,-rpath,'$$ORIGIN' -o $(TO_LIB)/$(1).so

# Builds only if there is no finished build: root may have neither cargo nor the network.
.PHONY: install uninstall
install:
	@test -f $(TARGET)/release/libtfcore.so || $(MAKE) release
	mkdir -p $(TO_LIB)/pkgconfig $(TO_INCLUDE)
	install -m 755 $(TARGET)/release/libtfcore.so $(TO_LIB)/libtfcore.so.2
	ln -sf libtfcore.so.2 $(TO_LIB)/libtfcore.so
ifeq ($(STATIC),1)
	install -m 644 $(TARGET)/release/libtfcore.a $(TO_LIB)/libtfcore.a
endif
	for header in $(HEADERS); do install -D -m 644 include/$$header $(TO_INCLUDE)/$$header || exit 1; done
	$(call pkg_config,tfcore,tfcore)
ifeq ($(COMPAT),1)
	@$(need_cc)
	for name in $(COMPAT_LIBRARIES); do ln -sf libtfcore.so.2 $(TO_LIB)/$$name.so.2 && rm -f $(TO_LIB)/$$name.so || exit 1; done
	for name in $(COMPAT_LIBRARIES); do $(call stub,$$name) || exit 1; done
	$(call pkg_config,tensorflow,tensorflow)
endif
	@test -n "$(DESTDIR)" || ! command -v ldconfig >/dev/null || test "$$(id -u)" != 0 || ldconfig

# Removes what `install` with the same variables has written. Names of TensorFlow's go only if they are ours.
uninstall:
	for name in $(COMPAT_LIBRARIES); do \
	  if [ "$$(readlink $(TO_LIB)/$$name.so.2)" = libtfcore.so.2 ]; then \
	    rm -f $(TO_LIB)/$$name.so.2 $(TO_LIB)/$$name.so $(TO_LIB)/pkgconfig/tensorflow.pc; \
	  fi; \
	done
	rm -f $(TO_LIB)/libtfcore.so.2 $(TO_LIB)/libtfcore.so $(TO_LIB)/libtfcore.a $(TO_LIB)/pkgconfig/tfcore.pc
	rm -f $(HEADERS:%=$(TO_INCLUDE)/%)
	for directory in $(sort $(foreach header,$(HEADERS),$(filter-out %.h,$(firstword $(subst /, ,$(header)))))); do \
	  test ! -d $(TO_INCLUDE)/$$directory || find $(TO_INCLUDE)/$$directory -depth -type d -empty -delete; \
	done
