# SPDX-License-Identifier: GPL-2.0-only
{
	sub(/^[^ ]*:/, "")
	for (i = 1; i <= NF; i++) if ($i != "\\" && $i !~ /autoconf/) read[$i] = 1
}
END {
	for (file in read) {
		deps = deps " " file
		while ((getline line < file) > 0)
			while (match(line, /CONFIG_[A-Z0-9_]+/)) {
				name = substr(line, RSTART + 7, RLENGTH - 7)
				if (!(name in named)) named[name] = (getline dummy < ("include/config/" name)) >= 0
				line = substr(line, RSTART + RLENGTH)
			}
	}
	for (name in named) if (named[name]) deps = deps " include/config/" name
	print "saved_" object " := " ENVIRON["saved"]
	print "deps_" object " :=" deps
	print object ": $(deps_" object ")"
	print "$(deps_" object "): ;"
}
