# SPDX-License-Identifier: GPL-2.0-only
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
defines = -D__KERNEL__ $(if $(filter %.S,$(source)),-D__ASSEMBLY__ $(AFLAGS_$(notdir $(1))))
command = $(CC) -Iinclude $(addprefix -I$(srctree)/include,/ /uapi) -include include/generated/autoconf.h $(defines) \
	-Wall -O1 $(KCFLAGS) $(flags-$(1)) -c -o $(1) $(source)
link = $(CC) -Wl,--build-id=none -o linux $(objects)
changed = $(filter-out $(saved_$(1)),$(2))$(filter-out $(2),$(saved_$(1)))
reason = $(strip $(filter-out FORCE,$?) $(if $(wildcard $@),,absent) $(call changed,$@,$(1)))

compile = @sh $(srctree)/scripts/compile.sh $(if $(filter %.S,$(source)),AS,CC) $(1) $(command)
join = @echo '  LINK    linux'; $(link) && echo 'saved_linux := $(link)' > .linux.cmd

linux: $(objects) FORCE
	$(if $(call reason,$(link)),$(join))

# As Kbuild: no rule makes an object without its source, so one that lies there stays.
stays = $(if $(wildcard $@),$(if $(wildcard $(call source,$@)),,yes))
$(objects): FORCE
	$(if $(stays),,$(if $(call reason,$(call command,$@)),$(call compile,$@)))

-include $(srctree)/scripts/extra.mk
-include .linux.cmd $(wildcard $(foreach o,$(objects),$(dir $(o)).$(notdir $(o)).cmd))

FORCE:
.PHONY: FORCE
endif
