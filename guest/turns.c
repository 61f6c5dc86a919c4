// SPDX-License-Identifier: MIT
#include "turns.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "clock.h"
#include "session.h"

enum { LINE = 128 };

static struct serving {
    const struct job *job;
    size_t index;
    bool open, ready; // a case is alive; it was said to be ready
    uint64_t began_ns;
    struct case_process process;
    struct case_outcome outcome; // too large for a stack
} serving;

static bool refuse(const char *order, const char *why) {
    char reason[LINE + 64];
    snprintf(reason, sizeof reason, "order %.60s: %s", order, why);
    channel_say("fatal", -1, reason);
    return false;
}

static struct json *record_of(const char *type) {
    struct json *record = channel_record(type);
    json_number(record, "case", serving.index);
    return record;
}

static bool say_end(void) {
    bool good = serving.outcome.kind == CASE_SAMPLE;
    struct json *record = record_of(good                                ? "done"
                                    : serving.outcome.kind == CASE_SKIP ? "skip"
                                                                        : "error");
    if (good)
        case_write(record, &serving.outcome);
    else
        json_text(record, "reason", serving.outcome.reason);
    json_number(record, "mono_ns", clock_ns());
    return channel_send();
}

static bool begin(size_t index) {
    serving.index = index;
    serving.ready = false;
    serving.began_ns = clock_ns();
    if (!session_scheduled())
        return false;
    const struct case_spec *spec = &serving.job->cases[index];
    struct json *record = record_of("begin");
    json_text(record, "bench", spec->bench);
    json_number(record, "mono_ns", serving.began_ns);
    if (!channel_send())
        return false;
    serving.open = case_open(spec, channel_forget, &serving.process, &serving.outcome);
    return serving.open || say_end();
}

// Where what is timed of a turn begins or ends.
static bool say_mark(bool *said, bool begins) {
    if (!*said)
        return true;
    *said = false;
    struct json *record = record_of("mark");
    json_number(record, "begins", begins);
    return channel_send();
}

// What the case said since: each turn is handed on and forgotten.
static bool relay(void) {
    struct wire_reader *said = &serving.outcome.said;
    if (said->ready && !serving.ready) {
        serving.ready = true;
        struct json *record = record_of("ready");
        json_number(record, "mono_ns", clock_ns());
        if (!channel_send())
            return false;
    }
    if (!say_mark(&said->timed_from, true) || !say_mark(&said->timed_to, false))
        return false;
    for (size_t i = 0; i < said->rep_count; i++) {
        struct json *record = record_of("turn");
        json_number(record, "operations", said->reps[i].operations);
        json_number(record, "ns", said->reps[i].ns);
        if (!channel_send())
            return false;
    }
    said->rep_count = 0;
    return true;
}

static bool end_case(bool ended, int status, void (*tidy)(void), uint64_t *inside_ns) {
    case_close(&serving.process, &serving.job->cases[serving.index], ended, status,
               &serving.outcome);
    serving.open = false;
    *inside_ns += clock_ns() - serving.began_ns;
    bool said = session_scheduled() && relay() && say_end();
    if (tidy)
        tidy();
    return said;
}

static bool follow(bool spoke, void (*tidy)(void), uint64_t *inside_ns) {
    int status = 0;
    if (case_follow(&serving.process, spoke, &serving.outcome, &status))
        return end_case(true, status, tidy, inside_ns);
    return relay();
}

// One order. `over` is set by the last one.
static bool take(char *line, bool (*whole)(const struct job *job, size_t index), void (*tidy)(void),
                 uint64_t *inside_ns, bool *over) {
    char word[16] = "";
    uint64_t first = 0, second = 0;
    int fields = sscanf(line, "%15s %" SCNu64 " %" SCNu64, word, &first, &second);
    bool known = fields >= 2 && first < serving.job->case_count;
    if (!strcmp(word, "bye"))
        return *over = true;
    if (!strcmp(word, "turn")) {
        struct order order = {first, second};
        // A case that is over has said why; the order was on its way meanwhile.
        if (fields == 3 && serving.open &&
            write(serving.process.orders, &order, sizeof order) == sizeof order)
            return true;
        return fields == 3 && !serving.open ? true : refuse(line, "the case does not take it");
    }
    if (!strcmp(word, "end")) {
        if (serving.open && serving.process.orders >= 0) {
            close(serving.process.orders);
            serving.process.orders = -1;
        }
        return true;
    }
    if (serving.open || !known)
        return refuse(line, serving.open ? "a case is open" : "no such order");
    if (!strcmp(word, "begin"))
        return begin((size_t)first);
    if (strcmp(word, "case"))
        return refuse(line, "no such order");
    uint64_t start = clock_ns();
    bool good = whole(serving.job, (size_t)first);
    *inside_ns += clock_ns() - start;
    if (tidy)
        tidy();
    return good;
}

bool turns_serve(const struct job *job, bool (*whole)(const struct job *job, size_t index),
                 void (*tidy)(void), uint64_t *inside_ns) {
    char line[LINE];
    size_t used = 0;
    bool good = true, over = false;
    sigset_t none;
    sigemptyset(&none);
    serving.job = job;
    while (good && !over) {
        struct pollfd polls[] = {
            {.fd = channel_orders(), .events = POLLIN},
            {.fd = serving.open ? serving.process.from : -1, .events = POLLIN},
        };
        if (ppoll(polls, 2, NULL, &none) < 0)
            polls[0].revents = polls[1].revents = 0; // a child died
        if (serving.open)
            good = follow(polls[1].revents, tidy, inside_ns);
        if (!good || !polls[0].revents)
            continue;
        ssize_t got = read(channel_orders(), line + used, sizeof line - 1 - used);
        if (got <= 0 && (got == 0 || (errno != EAGAIN && errno != EINTR)))
            break; // nobody gives orders any more
        used += got > 0 ? (size_t)got : 0;
        line[used] = 0;
        for (char *end; good && !over && (end = strchr(line, '\n'));) {
            *end = 0;
            good = take(line, whole, tidy, inside_ns, &over);
            used -= (size_t)(end + 1 - line);
            memmove(line, end + 1, used + 1);
        }
        if (used == sizeof line - 1)
            good = refuse(line, "is too long");
    }
    if (serving.open)
        case_close(&serving.process, &job->cases[serving.index], false, 0, &serving.outcome);
    return good;
}
