/* Chunks on threads; see chunks.h. */

#define _GNU_SOURCE
#include "chunks.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "journal.h"

enum { MOST_THREADS = 6, SLOTS = 2 * MOST_THREADS, FEW = 4 };
enum state { FREE, FILLED, BUSY };

struct slot {
    char *data;
    size_t number, bytes;
    enum state state;
};

static struct slot slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, freed = PTHREAD_COND_INITIALIZER;
static int threads = -1; /* -1: not started yet */
static int use_threads, current, failure;
static char (*names)[65];
static size_t room;

static void store(struct slot *slot) {
    int error = store_chunk(slot->data, slot->bytes, names[slot->number]);
    if (error && !failure) failure = error;
}

static void *work(void *own) {
    pthread_mutex_lock(&lock);
    for (;;) {
        struct slot *slot = slots;
        while (slot < slots + SLOTS && slot->state != FILLED) slot++;
        if (slot == slots + SLOTS) {
            pthread_cond_wait(&filled, &lock);
            continue;
        }
        slot->state = BUSY;
        pthread_mutex_unlock(&lock);
        store(slot);
        pthread_mutex_lock(&lock);
        slot->state = FREE;
        pthread_cond_signal(&freed);
    }
    return own;
}

static void start(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    sigset_t all, before;
    threads = 0;
    /* The program's signals are for its own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (long i = 0; i < cores - 1 && i < MOST_THREADS; i++) {
        pthread_t made;
        if (!pthread_create(&made, NULL, work, NULL)) pthread_detach(made), threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void chunks_begin(size_t count) {
    if (count > FEW && threads < 0) start();
    use_threads = count > FEW && threads > 0;
    failure = 0;
    if (count > room) {
        free(names);
        room = count;
        if (!(names = malloc(room * sizeof *names))) abort();
    }
}

char *chunk_buffer(void) {
    pthread_mutex_lock(&lock);
    for (current = 0; slots[current].state != FREE;)
        if (++current == SLOTS) current = 0, pthread_cond_wait(&freed, &lock);
    pthread_mutex_unlock(&lock);
    if (!slots[current].data && !(slots[current].data = malloc(settings.chunk_bytes))) abort();
    return slots[current].data;
}

void chunk_filled(size_t number, size_t bytes) {
    struct slot *slot = &slots[current];
    slot->number = number, slot->bytes = bytes;
    if (!use_threads) {
        store(slot);
        return;
    }
    pthread_mutex_lock(&lock);
    slot->state = FILLED;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
}

int chunks_end(void) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SLOTS;)
        if (slots[i].state == FREE) i++;
        else pthread_cond_wait(&freed, &lock);
    pthread_mutex_unlock(&lock);
    return failure;
}

const char *chunk_name(size_t number) { return names[number]; }
