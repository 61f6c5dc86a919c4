// SPDX-License-Identifier: MIT
// What a case's process says to the process that started it, over a pipe. The case may be broken
// in any way, so the reader checks every length and keeps everything within bounds.
#ifndef KDYNO_WIRE_H
#define KDYNO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    WIRE_REPS_MAX = 512,
    WIRE_TEXT_MAX = 8 * 1024,
    WIRE_NOTES_MAX = 24,
    WIRE_KEY_MAX = 32,
    WIRE_NOTE_BYTES_MAX = 64 * 1024, // of all notes together
};

enum wire_type {
    WIRE_REP = 1,
    WIRE_FIGURES,
    WIRE_NOTE,
    WIRE_SKIP,
    WIRE_FAIL,
    WIRE_DONE,
    WIRE_READY, // set up, and waits for its first turn
    WIRE_MARK,  // one byte: here begins (1) or ends (0) what is to be timed of a turn
};

struct wire_rep {
    uint64_t operations;
    uint64_t ns;
};

struct wire_figures {
    uint64_t user_ns;
    uint64_t sys_ns;
    uint64_t calibration_ns;
};

struct wire_note {
    char key[WIRE_KEY_MAX];
    size_t start, length; // within wire_reader.note_bytes
};

// Everything a case said; `buffer` holds the beginning of a message that is not whole yet.
struct wire_reader {
    struct wire_rep reps[WIRE_REPS_MAX];
    size_t rep_count;
    struct wire_figures figures;
    struct wire_note notes[WIRE_NOTES_MAX];
    size_t note_count;
    char note_bytes[WIRE_NOTE_BYTES_MAX];
    size_t note_used;
    char text[WIRE_TEXT_MAX]; // of WIRE_SKIP or WIRE_FAIL
    bool ready, skipped, failed, done, garbled;
    bool timed_from, timed_to; // marks of the turn that is under way
    unsigned char buffer[WIRE_NOTE_BYTES_MAX + 256];
    size_t buffered;
};

// Returns false when the pipe is gone.
bool wire_send(int fd, enum wire_type type, const void *payload, size_t length);
// Reads what is there without waiting; false at the end of the stream.
bool wire_read(struct wire_reader *reader, int fd);
// By one system call; returns what read(2) does.
ssize_t wire_read_once(struct wire_reader *reader, int fd);

#endif
