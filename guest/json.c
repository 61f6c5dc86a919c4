// SPDX-License-Identifier: MIT
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void json_start(struct json *json, char *bytes, size_t size) {
    *json = (struct json){.bytes = bytes, .size = size};
    json_raw(json, "{");
}

static void append(struct json *json, const char *bytes, size_t length) {
    if (json->overflow || length > json->size - json->used) {
        json->overflow = true;
        return;
    }
    memcpy(json->bytes + json->used, bytes, length);
    json->used += length;
}

void json_raw(struct json *json, const char *text) {
    append(json, text, strlen(text));
}

void json_key(struct json *json, const char *name) {
    if (json->used && json->bytes[json->used - 1] != '{')
        json_raw(json, ",");
    json_quote(json, name, strlen(name));
    json_raw(json, ":");
}

// Bytes of the UTF-8 sequence at `at`, or 0: cut off, overlong, a surrogate, past U+10FFFF.
static size_t sequence(const unsigned char *at, size_t left) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || length > left)
        return 0;
    uint32_t point = at[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (at[i] & 0x3f);
    }
    if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return 0;
    return length;
}

void json_quote(struct json *json, const char *bytes, size_t length) {
    json_raw(json, "\"");
    for (size_t i = 0; i < length;) {
        unsigned char byte = (unsigned char)bytes[i];
        char escape[8];
        size_t run = 1;
        if (byte == '"' || byte == '\\') {
            snprintf(escape, sizeof escape, "\\%c", byte);
            json_raw(json, escape);
        } else if (byte < 0x20 || byte == 0x7f) {
            snprintf(escape, sizeof escape, "\\u%04x", byte);
            json_raw(json, escape);
        } else if (byte < 0x80) {
            append(json, bytes + i, 1);
        } else if ((run = sequence((const unsigned char *)bytes + i, length - i))) {
            append(json, bytes + i, run);
        } else {
            json_raw(json, "\\ufffd");
            run = 1;
        }
        i += run;
    }
    json_raw(json, "\"");
}

void json_text(struct json *json, const char *name, const char *text) {
    json_key(json, name);
    json_quote(json, text, strlen(text));
}

void json_number(struct json *json, const char *name, uint64_t value) {
    char digits[24];
    json_key(json, name);
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    json_raw(json, digits);
}
