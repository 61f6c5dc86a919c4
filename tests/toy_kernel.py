# SPDX-License-Identifier: MIT
"""A kernel of a few lines that is built by the same make calls as Linux, in a fraction of a second.

It compiles with the real gcc, prints what Kbuild prints, keeps ``.NAME.o.cmd`` beside each
object, and lets time stamps, command lines and the options that a file names decide what is
compiled again. Its image is a program that says what it was built from.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from kdyno import sandbox
from kdyno.experiment.model import ConfigFragment, Variant
from kdyno.kernels.build import BuildProgress, build
from kdyno.kernels.image import Image
from kdyno.kernels.recipe import Recipe, recipe_of
from kdyno.kernels.source import Tree, fetch, parse

_TOP = r"""# SPDX-License-Identifier: GPL-2.0-only
VERSION = 7
PATCHLEVEL = 3
SUBLEVEL = 4
EXTRAVERSION =

export srctree := $(CURDIR)

tinyconfig olddefconfig linux:
	@mkdir -p $(O)
	+@$(MAKE) --no-print-directory -rR -C $(O) -f $(srctree)/scripts/toy.mk $@

.PHONY: tinyconfig olddefconfig linux
"""

_RULES = r"""# SPDX-License-Identifier: GPL-2.0-only
settle = awk -f $(srctree)/scripts/settle.awk $(srctree)/Kconfig $(1) > .config.new && \
	mv .config.new .config && echo '\# configuration written to .config'

tinyconfig:
	@$(call settle,/dev/null)

olddefconfig:
	@$(call settle,.config)

ifeq ($(MAKECMDGOALS),linux)

include include/config/auto.conf
include/config/auto.conf: .config
	@sh $(srctree)/scripts/sync.sh $(srctree)

include $(srctree)/Kbuild
objects :=
folders := $(patsubst %/,%,$(obj-y))
define folder
obj-y :=
include $(srctree)/$(1)/Makefile
$$(foreach o,$$(obj-y),$$(eval flags-$(1)/$$(o) := $$(CFLAGS_$$(o)))$$(eval CFLAGS_$$(o) :=))
objects += $$(addprefix $(1)/,$$(obj-y))
endef
$(foreach f,$(folders),$(eval $(call folder,$(f))))

source = $(firstword $(wildcard $(srctree)/$(1:.o=.S)) $(srctree)/$(1:.o=.c))
defines = -D__KERNEL__ $(if $(filter %.S,$(source)),-D__ASSEMBLY__)
command = $(CC) -Iinclude -I$(srctree)/include -include include/generated/autoconf.h $(defines) \
	-Wall -O1 $(KCFLAGS) $(flags-$(1)) -c -o $(1) $(source)
link = $(CC) -Wl,--build-id=none -o linux $(objects)
changed = $(filter-out $(saved_$(1)),$(2))$(filter-out $(2),$(saved_$(1)))
reason = $(strip $(filter-out FORCE,$?) $(if $(wildcard $@),,absent) $(call changed,$@,$(1)))

compile = @sh $(srctree)/scripts/compile.sh $(if $(filter %.S,$(source)),AS,CC) $(1) $(command)
join = @echo '  LINK    linux'; $(link) && echo 'saved_linux := $(link)' > .linux.cmd

linux: $(objects) FORCE
	$(if $(call reason,$(link)),$(join))

$(objects): FORCE
	$(if $(call reason,$(call command,$@)),$(call compile,$@))

-include $(srctree)/scripts/extra.mk
-include .linux.cmd $(wildcard $(foreach o,$(objects),$(dir $(o)).$(notdir $(o)).cmd))

FORCE:
.PHONY: FORCE
endif
"""

_SETTLE = r"""# SPDX-License-Identifier: GPL-2.0-only
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
"""

_SYNC = r"""# SPDX-License-Identifier: GPL-2.0-only
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
"""

_COMPILE = r"""# SPDX-License-Identifier: GPL-2.0-only
# compile.sh STEP OBJECT COMMAND...: run it, then record the command line and what it read.
step=$1
object=$2
shift 2
record=${object%/*}/.${object##*/}.cmd
[ -d "${object%/*}" ] || mkdir -p "${object%/*}"
echo "  $step      $object"
"$@" -MMD -MF "$record.d" || exit 1
saved="$*" exec awk -v object="$object" -f "${0%/*}/record.awk" "$record.d" > "$record"
"""

_RECORD = r"""# SPDX-License-Identifier: GPL-2.0-only
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
"""

_LINKAGE = r"""/* SPDX-License-Identifier: GPL-2.0-only */
#define SYM_FUNC_START(name) .globl name ; .type name, @function ; name:
#define SYM_FUNC_END(name) .size name, . - name
#define SYM_FUNC_ALIAS_WEAK(alias, name) .weak alias ; .set alias, name
#define RET ret
"""

_STOCK_MEMCPY = r"""/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>
#include <linux/export.h>
SYM_FUNC_START(memcpy_orig)
	movq %rdi, %rax
	movq %rdx, %rcx
	rep movsb
	RET
SYM_FUNC_END(memcpy_orig)
.section .note.GNU-stack, "", @progbits
"""

_KCONFIG = """mainmenu "Toy"
config 64BIT
	bool
	default y
config SORT
	bool "Sorting"
	default y
config NET
	bool "Networking"
config SMP
	bool "Several CPUs"
	depends on NET
config HZ
	int "Ticks in a second"
	default 100
config PREEMPT
	bool "Preemption"
"""

_MAIN = """#include <stdio.h>
#include <toy.h>
int main(void)
{
	printf("limit %d, hz %d, sort %d, place %s\\n", TOY_LIMIT, toy_hz(), toy_sort(), toy_place());
	return 0;
}
"""

FILES: Mapping[str, str] = {
    "Makefile": _TOP,
    "Kbuild": "obj-y += init/ lib/ kernel/ arch/x86/lib/\n",
    "Kconfig": _KCONFIG,
    "scripts/toy.mk": _RULES,
    "scripts/settle.awk": _SETTLE,
    "scripts/sync.sh": _SYNC,
    "scripts/compile.sh": _COMPILE,
    "scripts/record.awk": _RECORD,
    "include/toy.h": (
        "#define TOY_LIMIT 10\n#define TOY_SIZE 4\n"
        "int toy_hz(void);\nint toy_sort(void);\nconst char *toy_place(void);\n"
    ),
    "include/linux/linkage.h": _LINKAGE,
    "include/linux/export.h": "#define EXPORT_SYMBOL(name)\n",
    "init/Makefile": "obj-y += main.o\n",
    "init/main.c": _MAIN,
    "lib/Makefile": "obj-$(CONFIG_SORT) += sort.o\nobj-y += string.o\n",
    "lib/sort.c": "int toy_sort(void)\n{\n\tint steps = 1;\n\n\treturn steps;\n}\n",
    "lib/string.c": (
        "#ifndef CONFIG_SORT\nint toy_sort(void) { return 0; }\n#endif\n"
        "const char *toy_place(void)\n{\n\treturn __FILE__;\n}\n"
    ),
    "lib/unused.c": "int toy_unused;\n",
    "kernel/Makefile": "obj-y += time.o\n",
    "kernel/time.c": "#include <toy.h>\nint toy_hz(void)\n{\n\treturn CONFIG_HZ;\n}\n",
    "arch/x86/lib/Makefile": "obj-y += memcpy_64.o\n",
    "arch/x86/lib/memcpy_64.S": _STOCK_MEMCPY,
    "arch/um/Makefile": "ELF_ARCH := x86_64\n",
}
OBJECTS = {"init/main.o", "lib/sort.o", "lib/string.o", "kernel/time.o", "arch/x86/lib/memcpy_64.o"}
"""What a full build of the defaults compiles."""


def make_source(folder: Path, changed: Mapping[str, str] | None = None) -> Path:
    """The toy's source in ``folder``, with some files' text replaced or added."""
    for name, text in {**FILES, **(changed or {})}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def make_tree(cache: Path, source: Path) -> Tree:
    """The folder as a pristine tree of the cache."""
    return fetch(parse(f"path:{source}"), cache, lambda _text, _part: None)


def diff(folder: Path, source: Path, changed: Mapping[str, str | None], name: str) -> Path:
    """A patch file ``folder/NAME.patch`` that gives the source these texts; None deletes."""
    sides = (folder / f"{name}-work" / "a", folder / f"{name}-work" / "b")
    for path, text in changed.items():
        before = (source / path).read_text() if (source / path).exists() else None
        for side, content in zip(sides, (before, text), strict=True):
            (side / path).parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                (side / path).write_text(content)
    said = subprocess.run(
        ["diff", "-ruN", "a", "b"], cwd=sides[0].parent, capture_output=True, text=True, check=False
    )
    assert said.returncode == 1, said.stderr
    patch = folder / f"{name}.patch"
    patch.write_text(said.stdout)
    return patch


def variant(name: str = "stock", *config: str, **fields: object) -> Variant:
    """A variant of the toy; ``config``: CONFIG_ lines."""
    fragments = (ConfigFragment("toy.config", config),) if config else ()
    return Variant(name=name, source="path:toy", config=fragments, **fields)  # type: ignore[arg-type]


class Toy:
    """A toy source with its tree in a cache of its own; ``lines`` is what builds reported.

    trusted: source and patches count as kdyno's own, so that every build may start from every
    other one's objects.
    """

    def __init__(
        self,
        folder: Path,
        changed: Mapping[str, str] | None = None,
        *,
        sandboxed: bool = True,
        trusted: bool = True,
    ) -> None:
        self.trusted = trusted
        self.folder = folder
        self.cache = folder / "cache"
        self.source = make_source(folder / "toy", changed)
        self.tree = make_tree(self.cache, self.source)
        self.sandboxed = sandboxed
        self.steps: list[BuildProgress] = []

    @property
    def sandboxed(self) -> bool:
        return not sandbox._waived

    @sandboxed.setter
    def sandboxed(self, wanted: bool) -> None:
        sandbox._waived = not wanted

    def patch(self, name: str, changed: Mapping[str, str | None]) -> Path:
        return diff(self.folder, self.source, changed, name)

    def edit(self, name: str, path: str, old: str, new: str) -> Path:
        """A patch that replaces ``old`` by ``new`` in one file of the source."""
        text = (self.source / path).read_text()
        assert old in text
        return self.patch(name, {path: text.replace(old, new)})

    def recipe(self, asked: Variant) -> Recipe:
        recipe = recipe_of(asked, self.tree)
        return replace(recipe, foreign=frozenset()) if self.trusted else recipe

    def build(self, asked: Variant, **options: object) -> Image:
        return self.build_recipe(self.recipe(asked), asked.name, **options)

    def build_recipe(self, recipe: Recipe, name: str = "toy", **options: object) -> Image:
        self.steps = []
        report: Callable[[BuildProgress], None] = self.steps.append
        given = {"jobs": 2, "report": report, **options}
        return build(recipe, self.cache, name=name, **given)  # type: ignore[arg-type]

    @property
    def compiled(self) -> set[str]:
        """Objects that the last build compiled."""
        return {step.detail for step in self.steps if step.phase == "compile" and step.detail}

    def leftovers(self) -> list[str]:
        """What lies in the cache's work folder."""
        return sorted(path.name for path in (self.cache / "work").glob("*"))


def says(image: Image) -> str:
    """What the image prints when it runs."""
    return subprocess.run([image.kernel], capture_output=True, text=True, check=True).stdout.strip()


def kept(image: Image) -> list[str]:
    """Objects that the image's own record says were compiled, from its log."""
    log = (image.folder / "build.log").read_text().splitlines()
    return [line.split()[-1] for line in log if line.startswith(("  CC ", "  AS "))]
