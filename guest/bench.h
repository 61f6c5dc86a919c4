// SPDX-License-Identifier: MIT
// All that a benchmark needs to know. A benchmark is one file bench/NAME.c that defines
// BENCH(NAME), with '-' in the file's name written '_' in the symbol; bench/hello.c is the
// template.
#ifndef KDYNO_BENCH_H
#define KDYNO_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench {
    const char *help;                      // one line: what one operation is
    const char *usage;                     // its arguments, or NULL when it takes none
    const char *(*supported)(void);        // optional: NULL when it can run here, else why not
    void (*setup)(int argc, char **argv);  // optional: argv[0] is the first argument
    void (*body)(uint64_t iterations);     // does exactly this many operations; this is timed
    void (*again)(void);                   // optional: before each part of fixed work, so that all
                                           // begin alike; not timed
    uint64_t (*took)(uint64_t iterations); // optional: what the last body() is said to have taken,
                                           // in ns, where its figure is not the time that passed;
                                           // 0: it is
    void (*cleanup)(void);                 // optional: also the place to check results
    int (*helper)(int argc, char **argv);  // optional: `kdyno-guest helper NAME ARGS`, for execs
};

#define BENCH(symbol) const struct bench bench_##symbol

// Ends the case with an error record that carries this text.
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Ends the case with a skip record: it cannot run here, and the text says why.
_Noreturn void bench_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Puts a text into the record's "extra"; 64 KiB for all of them, what is over is cut.
void bench_note(const char *key, const void *bytes, size_t length);
// A whole number within [least, most], or bench_fail naming `what`.
uint64_t bench_number(const char *text, const char *what, uint64_t least, uint64_t most);
// The figure is something else than the time that passes: repetitions may be as short as they are.
void bench_untimed(void);
// What it costs is the CPU time of this process and of those that it starts and waits for, where
// instructions are counted: they read the host's files, and how long the host takes for that is no
// path of the kernel's. To the microsecond: a thousand instructions.
void bench_waits(void);
// Does this case take turns with others'? Known in setup().
bool bench_takes_turns(void);
// Of a turn, only what lies between these two is to be timed by who gives the turns.
void bench_mark(bool begins);
// Is this a booted guest, whose kernel may be crashed at will?
bool bench_in_guest(void);
// Folder for working files: $KDYNO_DIR, else /tmp.
const char *bench_dir(void);

#endif
