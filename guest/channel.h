// SPDX-License-Identifier: MIT
// The channel to the host: one signed JSON line a record, and orders the other way. Only the
// process that runs the job holds it.
#ifndef KDYNO_CHANNEL_H
#define KDYNO_CHANNEL_H

#include <stdint.h>

#include "json.h"

// Once, before the first record. The nonce is copied. `orders`: where the host's orders come from,
// or -1.
void channel_open(int fd, int orders, const char *nonce);
// The descriptor to read orders from.
int channel_orders(void);
// Starts a record of type `type`; the caller adds fields and calls channel_send.
struct json *channel_record(const char *type);
// Also a record with one text and, where `index` is not negative, its case.
void channel_say(const char *type, long index, const char *reason);
// Writes the record and wipes it from memory; false when the channel is broken.
bool channel_send(void);
// In a case's process: drops the descriptor and the nonce.
void channel_forget(void);

#endif
