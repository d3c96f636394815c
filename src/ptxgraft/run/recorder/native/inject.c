/* The library that the driver loads into a program (CUDA_INJECTION64_PATH): it listens to driver calls and records launches.

   Invariant: the program's calls go through unchanged and give what they would give without it; every launch that matches is recorded or
   refused in words, on standard error and in the journal. One lock keeps the program's other launches and copies away while one is
   recorded. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"
#include "journal.h"
#include "launches.h"
#include "modules.h"
#include "resources.h"

enum { MOST_CALLS = 4096 };

typedef void (*handler)(const struct call *call, int per_thread);

struct interest {
    const char *name;
    handler on_enter, on_exit;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside, recording; /* a callback, so that our own calls are not heard; a launch of this thread */
static regex_t pattern;
static const struct interest *by_number[MOST_CALLS];
static char per_thread_stream[MOST_CALLS];
static long launches, matches, recorded, refused;
static int captures; /* streams that are being captured now */
static int forked;   /* a child that has not started a program of its own: CUDA does not work there, and the journal is its parent's */

/* -- which launches ---------------------------------------------------------------------------------------------------------- */

static char **seen_names;
static size_t seen_count, seen_room;

/* Is this the first time that a name is seen? The names are a hash table: programs launch the same few kernels again and again. */
static int first_time(const char *name) {
    if (2 * (seen_count + 1) > seen_room) {
        size_t old = seen_room;
        char **before = seen_names;
        seen_room = seen_room ? 2 * seen_room : 256;
        seen_names = calloc(seen_room, sizeof *seen_names);
        if (!seen_names) abort();
        seen_count = 0;
        for (size_t i = 0; i < old; i++)
            if (before[i]) first_time(before[i]), free(before[i]);
        free(before);
    }
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    size_t at = hash % seen_room;
    for (; seen_names[at]; at = (at + 1) % seen_room)
        if (!strcmp(seen_names[at], name)) return 0;
    seen_names[at] = strdup(name);
    seen_count++;
    return 1;
}

static int chosen(const char *list, long number) {
    if (!list || !*list) return 1;
    for (char *end; *list; list = *end ? end + 1 : end)
        if (strtol(list, &end, 10) == number) return 1;
        else if (end == list) return 0;
    return 0;
}

static void refuse(const char *kernel, long number, const char *why) {
    struct text line = {0};
    char told[512];
    refused++;
    put(&line, "{\"what\": \"refused\", \"number\": %ld, \"kernel\": ", number);
    put_quoted(&line, kernel);
    put(&line, ", \"why\": ");
    put_quoted(&line, why);
    put(&line, "}");
    write_line(&line);
    free(line.data);
    snprintf(told, sizeof told, "refused: %s: %s", kernel, why);
    if (first_time(told)) fprintf(stderr, "ptxgraft record: %s is not recorded: %s\n", kernel, why);
}

/* -- launches ---------------------------------------------------------------------------------------------------------------- */

/* Why a launch on this stream must not be waited for. */
static const char *captured(handle stream) {
    int status = 0;
    if (cuStreamIsCapturing && !cuStreamIsCapturing(stream, &status) && status)
        return "its stream is being captured into a graph; run the program without graphs to record it";
    if (captures > 0) return "another stream is being captured into a graph, which waiting would spoil; run the program without graphs";
    return NULL;
}

/* Keeps the lock when the launch is recorded: until it has come back and what it left is written. */
static void launch_enter(struct launch *launch, const struct call *call, int per_thread) {
    const char *name = call->symbol;
    if (recording) return;
    pthread_mutex_lock(&lock);
    if (!name && cuFuncGetName && cuFuncGetName(&name, launch->function)) name = NULL;
    launch->kernel = name ? name : "(unnamed)";
    launch->number = launches++;
    if (per_thread && !launch->stream) launch->stream = (handle)(uintptr_t)STREAM_PER_THREAD;
    if (first_time(launch->kernel)) {
        struct text line = {0};
        put(&line, "{\"what\": \"kernel\", \"name\": ");
        put_quoted(&line, launch->kernel);
        put(&line, "}");
        write_line(&line);
        free(line.data);
    }
    if (!regexec(&pattern, launch->kernel, 0, NULL, 0) && chosen(settings.nth, ++matches)) {
        const char *why = captured(launch->stream);
        if (!why) why = launch_begin(launch);
        if (!why) {
            recorded++;
            recording = 1;
            return;
        }
        refuse(launch->kernel, launch->number, why);
    }
    pthread_mutex_unlock(&lock);
}

static void launch_exit(const struct call *call, int per_thread) {
    (void)per_thread;
    if (!recording) return;
    launch_end(call->returned ? *(const result *)call->returned : 0);
    recording = 0;
    pthread_mutex_unlock(&lock);
}

static void enter_launch(const struct call *call, int per_thread) {
    const struct launch_arguments *a = call->arguments;
    struct launch launch = {.function = a->function, .stream = a->stream, .shared_bytes = a->shared_bytes, .parameters = a->parameters};
    memcpy(launch.grid, a->grid, sizeof launch.grid);
    memcpy(launch.block, a->block, sizeof launch.block);
    launch.cooperative = !strncmp(call->function, "cuLaunchCooperative", 19);
    launch.extra = launch.cooperative ? NULL : a->extra;
    launch_enter(&launch, call, per_thread);
}

static void enter_launch_ex(const struct call *call, int per_thread) {
    const struct launch_ex_arguments *a = call->arguments;
    const struct launch_config *c = a->config;
    if (!c) return;
    struct launch launch = {.function = a->function, .stream = c->stream, .shared_bytes = c->shared_bytes};
    launch.parameters = a->parameters, launch.extra = a->extra;
    memcpy(launch.grid, c->grid, sizeof launch.grid);
    memcpy(launch.block, c->block, sizeof launch.block);
    for (unsigned i = 0; c->attributes && i < c->count; i++)
        if (c->attributes[i].id == LAUNCH_COOPERATIVE) launch.cooperative = c->attributes[i].value.flag != 0;
        else if (c->attributes[i].id == LAUNCH_CLUSTER) memcpy(launch.cluster, &c->attributes[i].value.cluster, sizeof launch.cluster);
    launch_enter(&launch, call, per_thread);
}

static void enter_other_launch(const struct call *call, int per_thread) {
    (void)per_thread;
    if (recording) return;
    pthread_mutex_lock(&lock);
    char why[128];
    int graph = !strncmp(call->function, "cuGraphLaunch", 13);
    if (graph) strcpy(why, "the launches of a graph are not recorded; run the program without graphs");
    else snprintf(why, sizeof why, "launches through %s are not recorded", call->function);
    refuse(graph ? "(graph)" : call->symbol ? call->symbol : call->function, graph ? -1 : launches++, why);
    pthread_mutex_unlock(&lock);
}

/* -- everything else --------------------------------------------------------------------------------------------------------- */

/* Runs a body under the lock, unless this thread holds it for its launch. */
#define GUARDED(name, body)                                   \
    static void name(const struct call *call, int per_thread) { \
        (void)per_thread, (void)call;                         \
        if (!recording) pthread_mutex_lock(&lock);            \
        body;                                                 \
        if (!recording) pthread_mutex_unlock(&lock);          \
    }

#define ARGUMENTS(kind) const struct kind *a = call->arguments
#define SUCCEEDED (!call->returned || !*(const result *)call->returned)
#define OF_LIBRARY (!strncmp(call->function, "cuLibrary", 9))

GUARDED(wait_for_turn, )
GUARDED(exit_load, ARGUMENTS(load_arguments);
        if (SUCCEEDED && a->made && a->image) module_loaded(*a->made, OF_LIBRARY, a->image))
GUARDED(exit_load_file, ARGUMENTS(load_file_arguments);
        if (SUCCEEDED && a->made && a->path) module_loaded_from_file(*a->made, OF_LIBRARY, a->path))
GUARDED(enter_unload, ARGUMENTS(value_arguments); module_unloaded((handle)(uintptr_t)a->value))
GUARDED(exit_kernel, ARGUMENTS(kernel_arguments); if (SUCCEEDED && a->made) kernel_found(*a->made, a->library))
GUARDED(enter_link_add, ARGUMENTS(link_add_arguments); if (a->type == 1 && a->data) link_input(a->state, a->data, a->bytes))
GUARDED(exit_link, ARGUMENTS(link_arguments); if (SUCCEEDED && a->made && a->bytes) link_done(a->state, *a->made, *a->bytes))
GUARDED(exit_allocate, ARGUMENTS(allocate_arguments); if (SUCCEEDED && a->made) memory_live(*a->made, a->bytes, 0))
GUARDED(exit_allocate_pitch, ARGUMENTS(allocate_pitch_arguments);
        if (SUCCEEDED && a->made && a->pitch) memory_live(*a->made, *a->pitch * a->height, 0))
GUARDED(exit_map, ARGUMENTS(map_arguments); if (SUCCEEDED) memory_live(a->base, a->bytes, 1))
GUARDED(enter_free, ARGUMENTS(value_arguments); memory_gone(a->value))
GUARDED(exit_texture, ARGUMENTS(object_arguments); if (SUCCEEDED && a->made && a->resource && a->texture)
        object_made((struct object){*a->made, 0, a->view != NULL, *a->resource, *a->texture}))
GUARDED(exit_surface, ARGUMENTS(object_arguments); if (SUCCEEDED && a->made && a->resource)
        object_made((struct object){.made = *a->made, .surface = 1, .resource = *a->resource}))
GUARDED(enter_texture_gone, ARGUMENTS(value_arguments); object_gone(a->value, 0))
GUARDED(enter_surface_gone, ARGUMENTS(value_arguments); object_gone(a->value, 1))
GUARDED(enter_capture, captures++)
GUARDED(exit_capture, if (!SUCCEEDED) captures--)
GUARDED(exit_capture_end, if (captures > 0) captures--)

/* By the call's name without _ptsz and _ptds. Versions differ in their arguments: only those that are named are heard. */
static const struct interest interests[] = {
    {"cuLaunchKernel", enter_launch, launch_exit},
    {"cuLaunchKernelEx", enter_launch_ex, launch_exit},
    {"cuLaunchCooperativeKernel", enter_launch, launch_exit},
    {"cuLaunchCooperativeKernelMultiDevice", enter_other_launch, NULL},
    {"cuLaunch", enter_other_launch, NULL},
    {"cuLaunchGrid", enter_other_launch, NULL},
    {"cuLaunchGridAsync", enter_other_launch, NULL},
    {"cuGraphLaunch", enter_other_launch, NULL},
    {"cuModuleLoad", NULL, exit_load_file},
    {"cuModuleLoadData", NULL, exit_load},
    {"cuModuleLoadDataEx", NULL, exit_load},
    {"cuModuleLoadFatBinary", NULL, exit_load},
    {"cuLibraryLoadData", NULL, exit_load},
    {"cuLibraryLoadFromFile", NULL, exit_load_file},
    {"cuModuleUnload", enter_unload, NULL},
    {"cuLibraryUnload", enter_unload, NULL},
    {"cuLibraryGetKernel", NULL, exit_kernel},
    {"cuLinkAddData_v2", enter_link_add, NULL},
    {"cuLinkComplete", NULL, exit_link},
    {"cuMemAlloc_v2", NULL, exit_allocate},
    {"cuMemAllocManaged", NULL, exit_allocate},
    {"cuMemAllocAsync", NULL, exit_allocate},
    {"cuMemAllocFromPoolAsync", NULL, exit_allocate},
    {"cuMemAllocPitch_v2", NULL, exit_allocate_pitch},
    {"cuMemMap", NULL, exit_map},
    {"cuMemFree_v2", enter_free, NULL},
    {"cuMemFreeAsync", enter_free, NULL},
    {"cuMemUnmap", enter_free, NULL},
    {"cuTexObjectCreate", NULL, exit_texture},
    {"cuSurfObjectCreate", NULL, exit_surface},
    {"cuTexObjectDestroy", enter_texture_gone, NULL},
    {"cuSurfObjectDestroy", enter_surface_gone, NULL},
    {"cuStreamBeginCapture", enter_capture, exit_capture},
    {"cuStreamBeginCapture_v2", enter_capture, exit_capture},
    {"cuStreamBeginCaptureToGraph", enter_capture, exit_capture},
    {"cuStreamEndCapture", NULL, exit_capture_end},
};

static const struct interest *interest_of(const char *name) {
    size_t length = strlen(name);
    if (length > 5 && (!strcmp(name + length - 5, "_ptsz") || !strcmp(name + length - 5, "_ptds"))) length -= 5;
    for (size_t i = 0; i < sizeof interests / sizeof *interests; i++)
        if (strlen(interests[i].name) == length && !strncmp(interests[i].name, name, length)) return &interests[i];
    static const struct interest copies = {"", wait_for_turn, NULL};
    return !strncmp(name, "cuMemcpy", 8) || !strncmp(name, "cuMemset", 8) ? &copies : NULL;
}

static void on_call(void *own, int domain, uint32_t number, const struct call *call) {
    (void)own;
    if (inside || forked || domain != DOMAIN_DRIVER || number >= MOST_CALLS || !by_number[number]) return;
    handler what = call->site == SITE_ENTER ? by_number[number]->on_enter : call->site == SITE_EXIT ? by_number[number]->on_exit : NULL;
    if (!what) return;
    inside = 1;
    what(call, per_thread_stream[number]);
    inside = 0;
}

/* -- start and end ----------------------------------------------------------------------------------------------------------- */

/* Null when a text is a regular expression (POSIX, extended), else what is wrong with it. The parent asks before it starts a program. */
__attribute__((visibility("default"))) const char *ptxgraft_pattern_fault(const char *text) {
    static char why[256];
    regex_t made;
    int error = regcomp(&made, text, REG_EXTENDED | REG_NOSUB);
    if (!error) {
        regfree(&made);
        return NULL;
    }
    regerror(error, &made, why, sizeof why);
    return why;
}

static void write_start(void) {
    struct text line = {0};
    int version = 0;
    char program[4096] = "";
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) program[0] = 0;
    if (cuDriverGetVersion) cuDriverGetVersion(&version);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    put(&line, "{\"what\": \"start\", \"pid\": %d, \"time\": %lld, \"driver\": %d, \"program\": ", (int)getpid(),
        now.tv_sec * 1000000000ll + now.tv_nsec, version);
    put_quoted(&line, program);
    put(&line, "}");
    write_line(&line);
    free(line.data);
}

__attribute__((destructor)) static void write_end(void) {
    struct text line = {0};
    if (!settings.folder || forked) return;
    put(&line, "{\"what\": \"end\", \"launches\": %ld, \"matches\": %ld, \"recorded\": %ld, \"refused\": %ld}", launches, matches, recorded,
        refused);
    write_line(&line);
    free(line.data);
}

/* CUPTI: the copy that the program has loaded, or the one that the parent found. */
static void *load_cupti(void) {
    const char *path = getenv("PTXGRAFT_RECORD_CUPTI");
    static const char *known[] = {"libcupti.so.14", "libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        void *loaded = dlopen(known[i], RTLD_NOW | RTLD_NOLOAD);
        if (loaded) return loaded;
    }
    return path ? dlopen(path, RTLD_NOW) : NULL;
}

static const char *listen(void) {
    void *cupti = load_cupti();
    if (!cupti) return dlerror();
    result (*subscribe)(void **, callback, void *) = (result(*)(void **, callback, void *))dlsym(cupti, "cuptiSubscribe");
    result (*enable)(uint32_t, void *, int, uint32_t) = (result(*)(uint32_t, void *, int, uint32_t))dlsym(cupti, "cuptiEnableCallback");
    result (*name_of)(int, uint32_t, const char **) = (result(*)(int, uint32_t, const char **))dlsym(cupti, "cuptiGetCallbackName");
    void *subscriber;
    int heard = 0;
    if (!subscribe || !enable || !name_of) return "it has no callback interface";
    if (subscribe(&subscriber, on_call, NULL)) return "it has another subscriber already (a profiler?)";
    for (uint32_t number = 1; number < MOST_CALLS; number++) {
        const char *name = NULL;
        if (name_of(DOMAIN_DRIVER, number, &name) || !name || !(by_number[number] = interest_of(name))) continue;
        size_t length = strlen(name);
        per_thread_stream[number] = length > 5 && !strcmp(name + length - 5, "_ptsz");
        if (!enable(1, subscriber, DOMAIN_DRIVER, number)) heard++;
    }
    return heard ? NULL : "it knows none of the calls";
}

static void note_fork(void) { forked = 1; }

/* The driver calls this when the program first uses it. */
__attribute__((visibility("default"))) int InitializeInjection(void) {
    const char *text = getenv("PTXGRAFT_RECORD_KERNEL"), *fault;
    if (settings.folder || !getenv("PTXGRAFT_RECORD_DIR")) return 1;
    settings.kernel = text ? text : "";
    settings.nth = getenv("PTXGRAFT_RECORD_NTH");
    settings.asks = getenv("PTXGRAFT_RECORD_ASKS");
    text = getenv("PTXGRAFT_RECORD_MAX_BYTES");
    settings.most_bytes = text ? strtoull(text, NULL, 10) : UINT64_MAX;
    text = getenv("PTXGRAFT_RECORD_CHUNK_BYTES");
    settings.chunk_bytes = text ? strtoull(text, NULL, 10) : 1 << 20;
    settings.folder = getenv("PTXGRAFT_RECORD_DIR");
    inside = 1;
    if (!open_journal()) {
        fprintf(stderr, "ptxgraft record: cannot write in %s: %s; nothing is recorded\n", settings.folder, strerror(errno));
        settings.folder = NULL;
    } else if (regcomp(&pattern, settings.kernel, REG_EXTENDED | REG_NOSUB))
        complain("%s is no regular expression; nothing is recorded", settings.kernel);
    else if (!load_driver()) complain("the driver's library libcuda.so.1 could not be used; nothing is recorded");
    else if ((fault = listen())) complain("CUPTI cannot be used; nothing is recorded: %s", fault);
    else write_start();
    pthread_atfork(NULL, NULL, note_fork);
    inside = 0;
    return 1;
}
