#!/bin/sh
# SPDX-License-Identifier: MIT
# What kdyno needs on this machine, installed: Debian packages where there is apt, and the
# Python environment in .venv from requirements.lock. Does nothing where all is there.
#   (nothing)      what building and measuring kernels needs
#   --suites       also the programs and libraries that suites run
#   --tests        also what the tests need: the suites, and the programs that read exports
#   --python-only  no packages, no root
set -eu
cd "$(dirname "$0")"

packages="gcc make flex bison bc patch xz-utils zstd bzip2 git curl ca-certificates python3 python3-venv
 libc6-dev bubblewrap ccache linux-perf time gcc-multilib
 qemu-system-x86 seabios libelf-dev dwarves mmdebstrap"
suites="fio apache2-bin apache2-utils rt-tests sysbench stress-ng pkg-config libfftw3-dev
 libcairo2-dev libegl-dev libgles-dev libegl-mesa0 libgl1-mesa-dri libgtk-3-dev xvfb"
tests="chromium-headless-shell fonts-dejavu-core clang clang-19 e2fsprogs binutils fakeroot
 diffutils util-linux postgresql slurm-wlm munge bindfs qemu-user
 cpio rpm rpm2cpio openssh-client"
benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20230427221525-d343f6398b76

say() { printf 'setup: %s\n' "$*" >&2; }

missing_packages() {
    for package in $packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            printf '%s ' "$package"
    done
}

install_packages() {
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || {
            say "these packages are missing, and there is neither root nor sudo: $missing"
            exit 1
        }
        root=sudo
    fi
    say "installing $missing"
    $root env DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null
    # shellcheck disable=SC2086  # words on purpose
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        $missing >/dev/null
}

find_python() {
    for python in python3 python3.13 python3.12 python3.11; do
        if command -v "$python" >/dev/null &&
            "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$python"
            return 0
        fi
    done
    say "kdyno needs Python 3.11 or later (\`make setup\` installs Debian's)"
    exit 1
}

find_uv() {
    if command -v uv >/dev/null; then
        echo uv
    elif [ -x build/uv/bin/uv ]; then
        echo build/uv/bin/uv
    else
        # uv comes as a Python package, from whatever index this machine's pip is set to.
        "$1" -m venv build/uv >&2
        build/uv/bin/pip install -q uv >&2
        echo build/uv/bin/uv
    fi
}

install_python() {
    stamp=.venv/installed
    wanted=$(cat requirements.lock pyproject.toml setup.sh | cksum)
    [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return 0
    python=$(find_python)
    mkdir -p build
    uv=$(find_uv "$python")
    say "Python environment in .venv"
    [ -x .venv/bin/python ] || "$uv" venv -q --python "$python" .venv
    "$uv" pip sync -q --python .venv/bin/python --require-hashes requirements.lock
    # The project itself goes in as a link to src: no build back end, nothing to fetch.
    site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    pwd | sed 's,$,/src,' >"$site/kdyno.pth"
    cat >.venv/bin/kdyno <<END
#!$(pwd)/.venv/bin/python
import sys

from kdyno.cli.main import main

# As pip writes it. The guard matters: worker processes import this file again.
if __name__ == "__main__":
    sys.exit(main())
END
    chmod +x .venv/bin/kdyno
    echo "$wanted" >"$stamp"
}

# Debian has no package of it. Its module needs any Go since 1.15.
install_benchstat() {
    [ ! -x .venv/bin/benchstat ] || return 0
    command -v go >/dev/null || {
        say "no go, so no benchstat: its test will fail"
        return 0
    }
    say "benchstat"
    GOBIN="$PWD/.venv/bin" GOMODCACHE="$PWD/build/go/modules" GOCACHE="$PWD/build/go/cache" \
        GOFLAGS="-modcacherw" go install "$benchstat" 2>build/go.log || {
        say "\`go install $benchstat\` failed: $(tail -n 1 build/go.log)"
        exit 1
    }
    rm -rf build/go build/go.log
}

case "${1:-}" in
--python-only | "") ;;
--suites) packages="$packages $suites" ;;
--tests)
    packages="$packages $suites $tests"
    [ -x .venv/bin/benchstat ] || command -v go >/dev/null || packages="$packages golang-go"
    ;;
*)
    say "no such option: $1 (--suites, --tests, --python-only)"
    exit 2
    ;;
esac
if [ "${1:-}" != "--python-only" ]; then
    if command -v apt-get >/dev/null; then
        install_packages
    else
        say "no apt here: \`.venv/bin/kdyno doctor\` says what is missing and how it is installed"
    fi
fi
install_python
if [ "${1:-}" = "--tests" ]; then
    install_benchstat
fi
