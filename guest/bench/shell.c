// SPDX-License-Identifier: MIT
// Shell scripts, the system's own shell and tools with them: a script starts as many copies as it
// is told of a second one, which works on a text, and waits for them. `helper shell` prints the
// text.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { TEXT_LINES = 203 };

static const char many_name[] = "many", one_name[] = "one", text_name[] = "text";
static const char many_script[] =
    "#!/bin/sh\n"
    "started=0\n"
    "while [ $started -lt $1 ]; do\n"
    "    /bin/sh ./one &\n"
    "    started=$((started + 1))\n"
    "done\n"
    "wait\n";
static const char one_script[] =
    "#!/bin/sh\n"
    "sort >sorted.$$ <text\n"
    "od sorted.$$ | sort -n -k 1 >dumped.$$\n"
    "grep the sorted.$$ | tee found.$$ | wc >counted.$$\n"
    "rm sorted.$$ found.$$ dumped.$$ counted.$$\n";

static char folder[4096], *copies;
static char text[16 * 1024];
static int matches; // lines of the text that contain "the"

// Lines of five to ten words in an order that needs sorting; always the same, about 8.5 KB.
static void make_text(void) {
    static const char *const words[] = {
        "kernel", "the", "pipe",   "of",     "scheduler", "a",      "their", "page",
        "buffer", "and", "signal", "is",     "process",   "memory", "in",    "socket",
        "driver", "to",  "thread", "system", "timer",     "on",     "queue", "inode",
    };
    uint32_t state = 1;
    char *at = text;
    for (int line = 0; line < TEXT_LINES; line++) {
        const char *start = at;
        for (int left = 5 + line % 6; left; left--) {
            state = state * 1664525 + 1013904223;
            at += sprintf(at, "%s%c", words[(state >> 16) % (sizeof words / sizeof *words)],
                          left > 1 ? ' ' : '\n');
        }
        matches += strstr(start, "the") != NULL;
    }
}

static void remove_folder(void) {
    static const char *const names[] = {many_name, one_name, text_name};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[sizeof folder + 16];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void write_file(const char *name, const char *content) {
    char path[sizeof folder + 16];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wx");
    bool good = file && fputs(content, file) >= 0 && !fchmod(fileno(file), 0700);
    if (!file || fclose(file) || !good) {
        int why = errno;
        remove_folder();
        bench_fail("cannot write %s: %s", path, strerror(why));
    }
}

enum { CANNOT_EXECUTE = 126 };

// The wait status of /bin/sh with two arguments, in the folder once there is one.
static int shell(const char *first, const char *second) {
    int status;
    pid_t child = fork();
    if (child < 0)
        bench_fail("fork: %s", strerror(errno));
    if (!child) {
        if (!*folder || !chdir(folder))
            execl("/bin/sh", "sh", first, second, (char *)NULL);
        _exit(CANNOT_EXECUTE);
    }
    if (waitpid(child, &status, 0) != child)
        bench_fail("waitpid: %s", strerror(errno));
    return status;
}

static const char *supported(void) {
    int status = shell("-c", "command -v sort od grep tee wc rm >/dev/null");
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_EXECUTE)
        return "this kernel cannot run the system's /bin/sh (a 32-bit one runs no 64-bit "
               "programs)";
    return status ? "sort, od, grep, tee, wc or rm is missing: apt-get install coreutils grep"
                  : NULL;
}

static void setup(int argc, char **argv) {
    bench_waits();
    if (argc != 1)
        bench_fail("shell wants a number of copies");
    bench_number(argv[0], "the number of copies", 1, 256);
    copies = argv[0];
    make_text();
    snprintf(folder, sizeof folder, "%s/kdyno-shell-%d", bench_dir(), (int)getpid());
    if (mkdir(folder, 0700))
        bench_fail("cannot create %s: %s", folder, strerror(errno));
    write_file(many_name, many_script);
    write_file(one_name, one_script);
    write_file(text_name, text);
    // The scripts' own status says nothing of what went on in their pipes.
    char check[64];
    snprintf(check, sizeof check, "test $(sort <text | grep -c the) -eq %d", matches);
    if (shell("-c", check)) {
        remove_folder();
        bench_fail("sort and grep do not find the %d lines of the text that they should", matches);
    }
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        int status = shell("./many", copies);
        if (status) {
            remove_folder();
            bench_fail("the script in %s ended with wait status %d", folder, status);
        }
    }
}

static int helper(int argc, char **argv) {
    (void)argc;
    (void)argv;
    make_text();
    return fputs(text, stdout) < 0;
}

BENCH(shell) = {
    .help = "a shell script starts copies of another that sorts, dumps, searches and counts a text",
    .usage = "COPIES",
    .supported = supported,
    .setup = setup,
    .body = body,
    .cleanup = remove_folder,
    .helper = helper,
};
