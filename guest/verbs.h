// SPDX-License-Identifier: MIT
// What the program can be asked to do. argv[0] is the verb's first argument; the value returned
// is the exit status.
#ifndef KDYNO_VERBS_H
#define KDYNO_VERBS_H

enum { EXIT_USAGE = 2, EXIT_SKIPPED = 77 };

int verb_bench(int argc, char **argv);
int verb_init(int argc, char **argv);
int verb_job(int argc, char **argv);
int verb_list(int argc, char **argv);
int verb_supervise(int argc, char **argv);
int verb_ticks(int argc, char **argv);

#endif
