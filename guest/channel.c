// SPDX-License-Identifier: MIT
#include "channel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "wire.h"

// All notes with every byte escaped, all repetitions, and the rest: never reached.
static char line[6 * WIRE_NOTE_BYTES_MAX + 48 * WIRE_REPS_MAX + 8 * WIRE_TEXT_MAX];
static struct json json;
static struct {
    int fd, orders;
    char nonce[NONCE_LENGTH + 1];
    uint64_t seq;
} channel = {.fd = -1, .orders = -1};

void channel_open(int fd, int orders, const char *nonce) {
    channel.fd = fd;
    channel.orders = orders;
    channel.seq = 0;
    memcpy(channel.nonce, nonce, sizeof channel.nonce);
}

int channel_orders(void) {
    return channel.orders;
}

struct json *channel_record(const char *type) {
    // The empty line before it keeps a record whole when something else wrote half a line.
    line[0] = '\n';
    json_start(&json, line + 1, sizeof line - 1);
    json_text(&json, "n", channel.nonce);
    json_number(&json, "seq", channel.seq++);
    json_text(&json, "t", type);
    return &json;
}

bool channel_send(void) {
    json_raw(&json, "}\n");
    size_t left = json.used + 1;
    const char *at = line;
    while (left && !json.overflow) {
        ssize_t done = write(channel.fd, at, left);
        if (done < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = channel.fd, .events = POLLOUT}, 1, 100);
        else if (done < 0 && errno != EINTR)
            break;
        if (done > 0) {
            at += done;
            left -= (size_t)done;
        }
    }
    explicit_bzero(line, json.used + 1);
    if (left)
        fprintf(stderr, "kdyno-guest: cannot write results: %s\n",
                json.overflow ? "a record is too long" : strerror(errno));
    return !left;
}

void channel_say(const char *type, long index, const char *reason) {
    struct json *record = channel_record(type);
    if (index >= 0)
        json_number(record, "case", (uint64_t)index);
    json_text(record, "reason", reason);
    channel_send();
}

void channel_forget(void) {
    close(channel.fd);
    if (channel.orders >= 0 && channel.orders != channel.fd)
        close(channel.orders);
    explicit_bzero(&channel, sizeof channel);
    channel.fd = channel.orders = -1;
}
