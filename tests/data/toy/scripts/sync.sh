# SPDX-License-Identifier: GPL-2.0-only
# Touch include/config/X for every option X that changed, so that files which name it follow.
set -e
mkdir -p include/config include/generated
touch include/config/auto.conf
for name in $(sed -n 's/^config //p' "$1/Kconfig"); do
	[ -e "include/config/$name" ] || : > "include/config/$name"
done
grep '^CONFIG_' .config > auto.new
differing=$(diff include/config/auto.conf auto.new | sed -n 's/^[<>] CONFIG_\([^=]*\)=.*/\1/p')
for name in $differing; do
	: > "include/config/$name"
done
sed 's/^\(CONFIG_[^=]*\)=y$/#define \1 1/; s/^\(CONFIG_[^=]*\)=\(.*\)/#define \1 \2/' \
	auto.new > include/generated/autoconf.h
mv auto.new include/config/auto.conf
