# SPDX-License-Identifier: GPL-2.0
# The targets a person calls. How the module is built is in Kbuild, which the
# kernel's build system reads.

# What make run and make shell take.
DRIVER ?= rust_loop
FS ?= ext4
CPUS ?= 2
MEM ?= 4G

guest := tools/guest --driver '$(DRIVER)' --fs '$(FS)' --cpus '$(CPUS)' --memory '$(MEM)' --params '$(PARAMS)' \
	$(if $(DIR),--dir '$(DIR)')

.PHONY: modules install uninstall clean setup build demo run shell check check-abi check-install check-debug \
	check-guards check-power check-hibernate soak suite bench bench-native lint help

# A build folder that does not fit ends make here, with one line.
ifneq ($(filter modules,$(or $(MAKECMDGOALS),modules)),)
  kdir := $(shell RUSTC='$(or $(RUSTC),rustc)' tools/check-kdir $(KDIR) 2>&1)
  ifneq ($(.SHELLSTATUS),0)
    $(error $(kdir))
  endif
endif

modules:
	+$(MAKE) -C '$(kdir)' M='$(CURDIR)' modules
	@tools/check-symbols rust_loop.ko '$(kdir)/Module.symvers'

# DESTDIR, INSTALL_MOD_PATH and KVER go there by the environment.
install uninstall:
	@tools/install-module $@

clean:
	git clean -q -d -f -X

setup:
	@tools/setup

# The module for the guests; the checkout stays as it is.
build: setup
	@$(if $(filter rust_loop,$(DRIVER)),tools/build-module >/dev/null)

demo: build
	@DRIVER='$(DRIVER)' tools/demo

run: build
	@$(guest) '$(SCRIPT)'

shell: build
	@$(guest) --shell

check: setup
	@tools/check

check-abi: build
	@tools/check-abi

check-install: build
	@tools/check-install

check-debug: setup
	@tools/check --debug

check-guards: setup
	@tools/check-guards $(GUARDS)

check-power: build
	@tools/check-power $(CUTS)

check-hibernate: build
	@tools/check-hibernate $(TIMES)

soak: build
	@$(if $(DEBUG),tools/make-kernel debug)
	@tools/soak $(if $(DEBUG),--debug) $(if $(SEED),--seed '$(SEED)') $(HOURS)

suite: build
	@tools/suite '$(SUITE)' '$(CHECKOUT)' $(TESTS)

bench_options := $(if $(QUICK),--quick) $(if $(BUSY),--busy) $(if $(RUBLK),--rublk '$(RUBLK)')

bench: build
	@tools/bench $(bench_options) $(WORKLOADS)

bench-native: build
	@tools/bench --native $(bench_options) $(WORKLOADS)

lint: setup
	@tools/lint

define usage
make [KDIR=folder]   build rust_loop.ko here, for the running kernel or that build folder
make install         install it in place of the in-tree driver, for the running kernel (root)
         [KVER=release] [DESTDIR=folder]
make uninstall       take all of that back
make setup           make the test bed: Debian root, build folder, initramfs (root; 5 GB, 5 minutes)
make demo            real data through loop devices on Debian's own kernel, in a guest
make run SCRIPT=file [DIR=folder] [DRIVER=rust_loop|loop|none] [FS=ext4|xfs|btrfs|f2fs|tmpfs]
         [CPUS=2] [MEM=4G] [PARAMS="nr_hw_queues=4"]     run a script in a fresh guest
make shell           the same guest, with a prompt
make check           all tests; the last line sums them up
make check-install   the selftests of installing only
make check-abi       the interface, step by step, against the in-tree driver's
make check-debug     the selftests under the kernel's own checks, in User Mode Linux
make check-guards [GUARDS="journal nofs"]
                     each guard left out: a selftest must fail that passes with it
make check-power [CUTS=50]
                     nothing that was flushed is lost when the power goes
make check-hibernate [TIMES=3]
                     a guest that hibernates under load wakes up in another QEMU, with all data right
make soak [HOURS=1] [SEED=1] [DEBUG=1]
                     all that happens to loop devices, at random and at once, for hours
                     (DEBUG: under the kernel's own checks, in User Mode Linux)
make suite SUITE=blktests|fstests|util-linux CHECKOUT=folder [TESTS="loop block"]
                     a public test suite, built by you, on both drivers
make bench [QUICK=1] [BUSY=1] [RUBLK=path] [WORKLOADS="fsync cold-read-32"]
                     speed beside the raw file, the in-tree driver and others, in quiet guests;
                     tables and plots in build/bench/report (QUICK: about 10 minutes)
make bench-native    the same at native speed, in user mode Linux
make lint            shellcheck, rustfmt, clippy and the rules of this project
make clean           remove what make built here
The test bed is kept in $$RUST_LOOP_CACHE, by default ~/.cache/rust_loop.
endef
help:
	$(info $(usage))
	@:
