/* Storing the chunks of one large range on several threads, since hashing takes longer than copying from the card.

   Invariant: one range at a time (the recorder's lock); when `chunks_end` comes back every chunk is stored or an error is known. */

#pragma once

#include <stddef.h>

/* Begin a range of so many chunks. */
void chunks_begin(size_t count);

/* A buffer of `settings.chunk_bytes` to fill next; waits for one. */
char *chunk_buffer(void);

/* The buffer that was given last holds chunk `number`. */
void chunk_filled(size_t number, size_t bytes);

/* Wait for all; gives 0 or the first errno. The name of chunk n is then `chunk_name(n)`, until the next range begins. */
int chunks_end(void);
const char *chunk_name(size_t number);
