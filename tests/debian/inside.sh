#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What debian_packages.py runs in a minimal Debian, as root: inside.sh SOURCE PACKAGES tries the packages as users do. It ends at
# what fails.
set -eux
source=$1 packages=$2
work=$(mktemp -d)
cd "$work"
cat >f.c <<END
int sum(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += values[i];
  return total;
}
END
everything() { find / -xdev -name '*mlbridge*' -o -xdev -name '*ml_compiler_bridge*' | grep -v "^$source\|^$packages\|^/proc\|^/var/lib/apt" || true; }
test -z "$(everything)"
apt-get -q update

# Installed, the command works, and clang compiles as advised: also for a user without a home.
begin=$(date +%s)
apt-get -qy install "$packages"/*.deb
mlbridge doctor
clang-22 $(mlbridge flags phase-ordering --effort 3) -Oz -Rpass=phase-ordering -fno-caret-diagnostics -c f.c 2>said
cat said
grep 'twice-no-machine-cse: 18 bytes of code instead of 23' said
echo "installed, and a first file compiled, in $(($(date +%s) - begin)) s"
if apt-get -qy install libonnxruntime1.21; then mlbridge doctor | grep '^ok *engine onnx'; fi # not in Debian 12
"$source/tests/install/every-plugin.sh"
chmod 755 .
setpriv --reuid=65534 --regid=65534 --clear-groups env -i PATH=/usr/bin:/bin mlbridge doctor
test -s /usr/share/man/man1/mlbridge-flags.1.gz
bash -c 'source /usr/share/bash-completion/completions/mlbridge; COMP_WORDS=(mlbridge fl); COMP_CWORD=1; _shtab_mlbridge; test "${COMPREPLY[*]}" = flags'

# Programs find the library by CMake and by pkg-config, and networks are compiled ahead of time.
apt-get -qy install --no-install-recommends cmake g++ ninja-build pkg-config zsh
zsh -c 'autoload -Uz compinit && compinit -u && test "$_comps[mlbridge]" = _mlbridge'
consumer=$source/tests/install/consumer
cmake -G Ninja -S "$consumer" -B consumer
cmake --build consumer
test "$(consumer/ask function:sum)" = 7
g++ -std=c++17 "$consumer/ask.cpp" $(pkg-config --cflags --libs mlbridge) -o ask
test "$(./ask function:sum)" = 7
consumer/ask 'unix:/nobody?serdes=json' 2>&1 | grep /nobody
cat >c.c <<END
#include <mlbridge/c/mlbridge.h>
#include <stdio.h>
int main(void) { return printf("%d\n", mlbridge_c_version()) < 0; }
END
gcc c.c $(pkg-config --cflags --libs mlbridge-c) -o c
./c
ldd c | grep libmlbridge-c.so.0
site=/usr/lib/python3/dist-packages
mlbridge aot $site/mlbridge/models/inliner-size/policy.onnx -o m.o

# Paths of the documentation lead from an empty folder to their results.
apt-get -qy install --no-install-recommends llvm-22-dev lld-22 make python3-onnx
python3 "$source/tests/docs/page.py" --prefix /usr "$source/docs/first-plugin.md" "$source/docs/paths/shipping.md" \
  "$source/docs/paths/smaller-programs.md"

# Another version in a virtual environment stands beside it.
python3 -m venv --without-pip other
cp -r $site/mlbridge $site/ml_compiler_bridge-*.dist-info other/lib/python3*/site-packages
sed -i 's/^Version: .*/Version: 99/' other/lib/python3*/site-packages/ml_compiler_bridge-*.dist-info/METADATA
test "$(other/bin/python -m mlbridge --version)" = 'mlbridge 99'
test "$(mlbridge --version)" != 'mlbridge 99'

# Purged, nothing stays.
apt -qy purge '?name(mlbridge)'
test -z "$(everything | grep -v "^$work")"

# An older version is replaced as a whole: no file of that stays, and no package beside a new one.
mkdir old
for package in "$packages"/*.deb; do
  dpkg-deb -R "$package" tree
  version=$(dpkg-deb -f "$package" Version)
  sed -i "s/$version/0.0.9-1/; s/ ${version%-*})/ 0.0.9)/" tree/DEBIAN/control
  mkdir -p tree/usr/share/mlbridge-old
  touch "tree/usr/share/mlbridge-old/$(basename "$package")"
  dpkg-deb -b tree old >/dev/null
  rm -r tree
done
apt-get -qy install --allow-downgrades ./old/*.deb
if dpkg -i "$packages"/python3-mlbridge_*.deb; then exit 1; fi
apt-get -qy install "$packages"/*.deb
test ! -e /usr/share/mlbridge-old
mlbridge doctor
apt -qy purge '?name(mlbridge)'
test -z "$(everything | grep -v "^$work")"

# The command alone says what is missing.
apt-get -qy install --no-install-recommends "$packages"/python3-mlbridge_*.deb "$packages"/mlbridge-tools_*.deb
if mlbridge flags phase-ordering 2>said; then exit 1; fi
grep 'the compiler plugin is not there.*: apt-get install mlbridge-llvm-22' said
