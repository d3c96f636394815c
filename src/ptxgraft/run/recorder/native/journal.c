/* Lines and chunks; see journal.h. */

#define _GNU_SOURCE
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sha256.h"

struct settings settings;
static int journal = -1;

static void reserve(struct text *text, size_t more) {
    if (text->length + more < text->room) return;
    text->room = (text->length + more) * 2 + 256;
    text->data = realloc(text->data, text->room);
    if (!text->data) abort(); /* no memory for a line: the program has none either */
}

static void put_list(struct text *text, const char *format, va_list list) {
    va_list again;
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list);
    reserve(text, (size_t)length + 1);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
    va_end(again);
}

void put(struct text *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    put_list(text, format, list);
    va_end(list);
}

void put_quoted(struct text *text, const char *words) {
    put(text, "\"");
    for (const unsigned char *c = (const unsigned char *)(words ? words : ""); *c; c++)
        /* Bytes beyond ASCII become the code points of Latin-1: a name may be in no encoding at all. */
        put(text, *c == '"' || *c == '\\' ? "\\%c" : *c < 0x20 || *c > 0x7e ? "\\u%04x" : "%c", *c);
    put(text, "\"");
}

void put_hex(struct text *text, const void *data, size_t bytes) {
    const unsigned char *from = data;
    put(text, "\"");
    reserve(text, 2 * bytes + 1);
    for (size_t i = 0; i < bytes; i++) {
        text->data[text->length++] = "0123456789abcdef"[from[i] >> 4];
        text->data[text->length++] = "0123456789abcdef"[from[i] & 15];
    }
    put(text, "\"");
}

void add_note(struct text *notes, const char *format, ...) {
    struct text words = {0};
    va_list list;
    va_start(list, format);
    put_list(&words, format, list);
    va_end(list);
    if (notes->length) put(notes, ", ");
    put_quoted(notes, words.data);
    free(words.data);
}

static int write_all(int file, const char *data, size_t bytes) {
    while (bytes) {
        ssize_t done = write(file, data, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return errno;
        data += done, bytes -= (size_t)done;
    }
    return 0;
}

void write_line(struct text *text) {
    put(text, "\n");
    int error = journal < 0 ? 0 : write_all(journal, text->data, text->length);
    if (error) {
        fprintf(stderr, "ptxgraft record: cannot write the journal in %s: %s\n", settings.folder, strerror(error));
        close(journal);
        journal = -1;
    }
    text->length = 0;
}

void complain(const char *format, ...) {
    struct text words = {0}, line = {0};
    va_list list;
    va_start(list, format);
    put_list(&words, format, list);
    va_end(list);
    fprintf(stderr, "ptxgraft record: %s\n", words.data);
    put(&line, "{\"what\": \"complaint\", \"text\": ");
    put_quoted(&line, words.data);
    put(&line, "}");
    write_line(&line);
    free(words.data);
    free(line.data);
}

int open_journal(void) {
    char path[PATH_MAX];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    /* A process may become another program: then it starts a journal of its own. */
    snprintf(path, sizeof path, "%s/journal-%d-%lld.jsonl", settings.folder, (int)getpid(), now.tv_sec * 1000000000ll + now.tv_nsec);
    journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return journal >= 0;
}

int store_file(const char *name, const void *data, size_t bytes) {
    char path[PATH_MAX], aside[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", settings.folder, name);
    if (!access(path, F_OK)) return 0;
    snprintf(aside, sizeof aside, "%s/.aside-%d-%lx", settings.folder, (int)getpid(), (unsigned long)pthread_self());
    int file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return errno;
    int error = write_all(file, data, bytes);
    if (close(file) && !error) error = errno;
    if (!error && rename(aside, path)) error = errno;
    if (error) unlink(aside);
    return error;
}

int store_chunk(const void *data, size_t bytes, char digest[65]) {
    char name[80];
    sha256_hex(data, bytes, digest);
    snprintf(name, sizeof name, "chunk-%s", digest);
    return store_file(name, data, bytes);
}
