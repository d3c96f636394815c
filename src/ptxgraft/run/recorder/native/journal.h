/* What the recorder writes: lines of JSON in a journal of this process, and chunks of contents named by their SHA-256.

   Invariant: a line is written whole with one call and names only chunks that are there, so that a program that dies leaves a readable
   journal. */

#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct settings {
    const char *folder, *kernel, *nth, *asks; /* where to write; a regular expression; numbers; the socket that knows variables */
    uint64_t most_bytes;
    size_t chunk_bytes;
};

extern struct settings settings;

struct text {
    char *data;
    size_t length, room;
};

/* Add to a text that becomes a line; `number` is a printf format. */
void put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_quoted(struct text *text, const char *words);
void put_hex(struct text *text, const void *data, size_t bytes);

/* Add a note to a list of them (", "-separated JSON strings). */
void add_note(struct text *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Write a text and a line end to the journal, and empty it. */
void write_line(struct text *text);

/* Tell the user, on standard error, and the journal. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Open the journal of this process; 0 when it cannot be written. */
int open_journal(void);

/* Store a chunk; its name goes to `digest`. Gives 0, or the errno. */
int store_chunk(const void *data, size_t bytes, char digest[65]);

/* Write a whole file into the folder: aside, then renamed. Gives 0, or the errno. */
int store_file(const char *name, const void *data, size_t bytes);
