// SPDX-License-Identifier: GPL-2.0-only
// What gives schedulers to the kernel, with the library that belongs to it.
//   header VMLINUX          prints the kernel's types as C: vmlinux.h, which schedulers include
//   load FILE.bpf.o PIN     puts a scheduler in charge, as long as there is the file PIN
// What goes wrong is said on stderr, the kernel's own words in it; the status is then 1.
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int wrong(const char *what, const char *of) {
    fprintf(stderr, "%s %s: %s\n", what, of, strerror(errno));
    return 1;
}

static void say(void *to, const char *format, va_list values) {
    vfprintf(to, format, values);
}

static int header(const char *vmlinux) {
    struct btf *types = btf__parse(vmlinux, NULL);
    struct btf_dump *dump = types ? btf_dump__new(types, say, stdout, NULL) : NULL;
    if (!dump)
        return wrong("cannot read the types of", vmlinux);
    puts("#ifndef VMLINUX_H\n#define VMLINUX_H");
    // Their layout is looked up again when the program is loaded.
    puts(
        "#pragma clang attribute push (__attribute__((preserve_access_index)), "
        "apply_to = record)");
    for (__u32 id = 1; id < btf__type_cnt(types); id++)
        if (btf_dump__dump_type(dump, id))
            return wrong("cannot write the types of", vmlinux);
    puts("#pragma clang attribute pop\n#endif");
    return fflush(stdout) ? wrong("cannot write", "stdout") : 0;
}

static int quiet(enum libbpf_print_level level, const char *format, va_list values) {
    return level == LIBBPF_WARN ? vfprintf(stderr, format, values) : 0;
}

static int load(const char *file, const char *pin) {
    libbpf_set_print(quiet);
    struct bpf_object *object = bpf_object__open_file(file, NULL);
    if (!object)
        return wrong("cannot open", file);
    if (bpf_object__load(object))
        return wrong("the kernel refuses", file);
    struct bpf_map *map;
    bpf_object__for_each_map(map, object) {
        if (bpf_map__type(map) != BPF_MAP_TYPE_STRUCT_OPS)
            continue;
        struct bpf_link *link = bpf_map__attach_struct_ops(map);
        if (!link)
            return wrong("not put in charge:", bpf_map__name(map));
        return bpf_link__pin(link, pin) ? wrong("cannot pin", pin) : 0;
    }
    errno = ENOENT;
    return wrong("no scheduler in", file);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "header"))
        return header(argv[2]);
    if (argc == 4 && !strcmp(argv[1], "load"))
        return load(argv[2], argv[3]);
    fputs("loader header VMLINUX | load FILE.bpf.o PIN\n", stderr);
    return 2;
}
