#!/usr/bin/env bash
# Makes sure the machine has what pip cannot bring: Python 3.10-3.13 with venv and headers, a C++
# compiler. Installs missing Debian packages when it may (root, or sudo without a password);
# otherwise says what to install. Usage: tools/system_packages.sh PYTHON
set -euo pipefail

python=${1:-python3}
missing=()

has_compiler() {
  command -v "${CXX:-g++}" >/dev/null || command -v clang++ >/dev/null
}

version=""
if command -v "$python" >/dev/null; then
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  case $version in
    3.10 | 3.11 | 3.12 | 3.13) ;;
    *)
      echo "error: $python is Python $version; TensorFlow needs 3.10 to 3.13." >&2
      echo "Choose another one, for example: make venv PYTHON=python3.12" >&2
      exit 1
      ;;
  esac
  "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=("python$version-venv")
  "$python" - 2>/dev/null <<'EOF' || missing+=("python$version-dev")
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
EOF
elif [ "$python" = python3 ]; then
  missing+=(python3 python3-venv python3-dev)
else
  echo "error: there is no '$python' on this machine; choose another with make venv PYTHON=..." >&2
  exit 1
fi
has_compiler || missing+=(g++)

if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo -n)
fi
if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
  echo "error: missing on this machine: ${missing[*]} (Debian and Ubuntu package names)." >&2
  echo "Install them as an administrator, for example: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "Installing Debian packages: ${missing[*]}"
"${as_root[@]}" apt-get update -q
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
