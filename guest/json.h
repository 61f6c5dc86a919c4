// SPDX-License-Identifier: MIT
// One JSON object, written into a buffer of fixed size.
#ifndef KDYNO_JSON_H
#define KDYNO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char *bytes;
    size_t size;
    size_t used;
    bool overflow; // something did not fit: the text is not to be used
};

void json_start(struct json *json, char *bytes, size_t size);
void json_raw(struct json *json, const char *text);
// Puts the comma where one is due, then "name":
void json_key(struct json *json, const char *name);
// A quoted string; bytes that are not UTF-8 become U+FFFD, so the line always is.
void json_quote(struct json *json, const char *bytes, size_t length);
void json_text(struct json *json, const char *name, const char *text);
void json_number(struct json *json, const char *name, uint64_t value);

#endif
