// SPDX-License-Identifier: MIT
#include "wire.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct header {
    uint32_t magic, type, length;
};

static const uint32_t magic = 0x6b64796e;

static bool write_all(int fd, const void *bytes, size_t length) {
    const char *at = bytes;
    while (length) {
        ssize_t done = write(fd, at, length);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        length -= (size_t)done;
    }
    return true;
}

bool wire_send(int fd, enum wire_type type, const void *payload, size_t length) {
    struct header header = {magic, type, (uint32_t)length};
    return write_all(fd, &header, sizeof header) && write_all(fd, payload, length);
}

// The payload is key, NUL, value.
static void take_note(struct wire_reader *reader, const unsigned char *payload, size_t length) {
    size_t key = strnlen((const char *)payload, length);
    if (key == length || key >= WIRE_KEY_MAX || reader->note_count == WIRE_NOTES_MAX) {
        reader->garbled = true;
        return;
    }
    size_t value = length - key - 1;
    // Of what a command printed the end matters: its figure stands there.
    if (value > WIRE_NOTE_BYTES_MAX - reader->note_used)
        value = WIRE_NOTE_BYTES_MAX - reader->note_used;
    struct wire_note *note = &reader->notes[reader->note_count++];
    memcpy(note->key, payload, key + 1);
    note->start = reader->note_used;
    note->length = value;
    memcpy(reader->note_bytes + reader->note_used, payload + length - value, value);
    reader->note_used += value;
}

static void take(struct wire_reader *reader, uint32_t type, const unsigned char *payload,
                 size_t length) {
    if (reader->done || reader->failed || reader->skipped) {
        reader->garbled = true;
        return;
    }
    switch (type) {
    case WIRE_REP:
        if (length != sizeof(struct wire_rep) || reader->rep_count == WIRE_REPS_MAX)
            break;
        memcpy(&reader->reps[reader->rep_count++], payload, length);
        return;
    case WIRE_FIGURES:
        if (length != sizeof reader->figures)
            break;
        memcpy(&reader->figures, payload, length);
        return;
    case WIRE_NOTE:
        take_note(reader, payload, length);
        return;
    case WIRE_SKIP:
    case WIRE_FAIL:
        if (length >= WIRE_TEXT_MAX)
            break;
        memcpy(reader->text, payload, length);
        reader->text[length] = 0;
        reader->skipped = type == WIRE_SKIP;
        reader->failed = type == WIRE_FAIL;
        return;
    case WIRE_DONE:
        reader->done = true;
        return;
    case WIRE_READY:
        reader->ready = true;
        return;
    case WIRE_MARK:
        if (length != 1)
            break;
        *(*payload ? &reader->timed_from : &reader->timed_to) = true;
        return;
    }
    reader->garbled = true;
}

static void take_whole_messages(struct wire_reader *reader) {
    size_t at = 0;
    struct header header;
    while (!reader->garbled && reader->buffered - at >= sizeof header) {
        memcpy(&header, reader->buffer + at, sizeof header);
        if (header.magic != magic || header.length > sizeof reader->buffer - sizeof header) {
            reader->garbled = true;
            break;
        }
        if (reader->buffered - at - sizeof header < header.length)
            break;
        take(reader, header.type, reader->buffer + at + sizeof header, header.length);
        at += sizeof header + header.length;
    }
    if (reader->garbled)
        at = reader->buffered; // go on emptying the pipe, so that the writer never blocks
    memmove(reader->buffer, reader->buffer + at, reader->buffered - at);
    reader->buffered -= at;
}

ssize_t wire_read_once(struct wire_reader *reader, int fd) {
    ssize_t got =
        read(fd, reader->buffer + reader->buffered, sizeof reader->buffer - reader->buffered);
    if (got > 0) {
        reader->buffered += (size_t)got;
        take_whole_messages(reader);
    }
    return got;
}

bool wire_read(struct wire_reader *reader, int fd) {
    // A case that writes for ever must not keep its reader in here past the deadline.
    for (int turn = 0; turn < 64; turn++) {
        ssize_t got = wire_read_once(reader, fd);
        if (got < 0)
            return errno == EAGAIN || errno == EINTR;
        if (got == 0)
            return false;
    }
    return true;
}
