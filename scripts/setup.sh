#!/usr/bin/env bash
# Installs what the tests need and the machine lacks, from the distribution's
# packages, where that is allowed; else says what to install. Quiet when
# everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
need() { # need PROGRAM PACKAGE...
	command -v "$1" >/dev/null || missing+=("${@:2}")
}

need git git
need gcc gcc libc6-dev # for the race detector
need redis-server redis-server
need redis-sentinel redis-sentinel
need redis-cli redis-tools
if grep -rqs --include='*_test.go' 'chromedp/chromedp"' . &&
	! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
	need chromium chromium
fi
[ ${#missing[@]} -eq 0 ] && exit 0

echo "missing: ${missing[*]}" >&2
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	as_root=(sudo -n)
fi
if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
	echo "can't install here; run as root: apt-get install ${missing[*]} (or your system's packages of that kind)" >&2
	exit 1
fi
# RUNLEVEL=1: install the servers, don't start them; the tests start their own.
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -o DPkg::Lock::Timeout=300)
"${install[@]}" update >&2
"${install[@]}" install -y --no-install-recommends "${missing[@]}" >&2
