# SPDX-License-Identifier: GPL-2.0-only
FNR == 1 { file++ }
file == 1 && $1 == "config" { name = $2; order[++count] = name; value[name] = "n" }
file == 1 && $1 == "default" { value[name] = $2 }
file == 1 && $1 == "depends" { needs[name] = $3 }
file == 2 && /^CONFIG_/ {
	cut = index($0, "=")
	value[substr($0, 8, cut - 8)] = substr($0, cut + 1)
}
file == 2 && /^# CONFIG_.* is not set$/ { value[substr($2, 8)] = "n" }
END {
	for (i = 1; i <= count; i++) {
		name = order[i]
		if (needs[name] != "" && value[needs[name]] != "y") { value[name] = "n"; continue }
		if (value[name] == "n") print "# CONFIG_" name " is not set"
		else print "CONFIG_" name "=" value[name]
	}
}
