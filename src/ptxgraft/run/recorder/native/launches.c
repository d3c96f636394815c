/* One launch; see launches.h. */

#include "launches.h"

#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "journal.h"
#include "modules.h"
#include "resources.h"

enum { MOST_PARAMETERS = 4096, MOST_BLOCK = 1 << 20 };

struct variable {
    const char *name;
    size_t length;
    struct range range;
};

/* The launch that is being recorded: one at a time, under the recorder's lock. */
static struct {
    long number;
    handle context; /* that was made current for it, or null */
    struct range *ranges;
    size_t range_count;
    struct object *objects;
    size_t object_count;
    struct variable *variables;
    size_t variable_count;
    uint64_t bytes; /* of the ranges and variables */
} now;

struct parameter {
    size_t offset, bytes;
};

static void forget(void) {
    free(now.ranges);
    free(now.objects);
    free(now.variables);
    memset(&now, 0, sizeof now);
}

/* -- the argument block ------------------------------------------------------------------------------------------------------ */

/* The block as the driver would lay it out, and its parameters. Gives null, or why it is not known. */
static const char *argument_block(const struct launch *launch, handle function, unsigned char **block, size_t *bytes,
                                  struct parameter **parameters, size_t *count) {
    if (!cuFuncGetParamInfo) return "this driver does not say where a kernel's parameters lie: CUDA 12.4 or later is needed";
    *bytes = *count = 0;
    *parameters = calloc(MOST_PARAMETERS, sizeof **parameters);
    *block = calloc(1, MOST_BLOCK);
    if (!*parameters || !*block) abort();
    for (size_t i = 0; i < MOST_PARAMETERS; i++) {
        struct parameter p;
        if (cuFuncGetParamInfo(function, i, &p.offset, &p.bytes)) break;
        if (p.offset > MOST_BLOCK / 2 || p.bytes > MOST_BLOCK / 2) return "the driver gives it parameters of an impossible size";
        (*parameters)[(*count)++] = p;
        if (p.offset + p.bytes > *bytes) *bytes = p.offset + p.bytes;
    }
    if (launch->parameters) {
        for (size_t i = 0; i < *count; i++)
            if (!launch->parameters[i]) return "one of its parameters is a null pointer";
            else memcpy(*block + (*parameters)[i].offset, launch->parameters[i], (*parameters)[i].bytes);
        return NULL;
    }
    const void *given = NULL;
    size_t given_bytes = 0;
    for (void **e = launch->extra; e && (uintptr_t)*e != LAUNCH_END; e += 2)
        if ((uintptr_t)*e == LAUNCH_BUFFER_POINTER) given = e[1];
        else if ((uintptr_t)*e == LAUNCH_BUFFER_SIZE) given_bytes = *(size_t *)e[1];
        else break;
    if (!given && *bytes) return "it passes no arguments for its parameters";
    if (given_bytes > MOST_BLOCK) return "its argument block is larger than any kernel's";
    if (given) memcpy(*block, given, given_bytes);
    if (given_bytes > *bytes) *bytes = given_bytes;
    return NULL;
}

/* -- what the arguments name ------------------------------------------------------------------------------------------------- */

/* The number of a range among those of this launch, added when it is new; -1 when there is no room for it. */
static long own_range(struct range range, struct text *notes) {
    for (size_t i = 0; i < now.range_count; i++)
        if (now.ranges[i].base == range.base) return (long)i;
    if (range.bytes > settings.most_bytes - now.bytes) {
        add_note(notes, "the allocation at 0x%llx with %zu bytes was left out: with it the launch needs more than %llu bytes (--max-bytes)",
                 (unsigned long long)range.base, range.bytes, (unsigned long long)settings.most_bytes);
        return -1;
    }
    now.bytes += range.bytes;
    now.ranges = realloc(now.ranges, (now.range_count + 1) * sizeof *now.ranges);
    if (!now.ranges) abort();
    now.ranges[now.range_count] = range;
    return (long)now.range_count++;
}

static size_t own_object(const struct object *object) {
    for (size_t i = 0; i < now.object_count; i++)
        if (now.objects[i].made == object->made && now.objects[i].surface == object->surface) return i;
    now.objects = realloc(now.objects, (now.object_count + 1) * sizeof *now.objects);
    if (!now.objects) abort();
    now.objects[now.object_count] = *object;
    return now.object_count++;
}

/* Look at each aligned word inside one parameter. */
static void name_words(const unsigned char *block, struct parameter p, struct text *pointers, struct text *handles, struct text *notes) {
    for (size_t at = (p.offset + 7) / 8 * 8; at + 8 <= p.offset + p.bytes; at += 8) {
        address word;
        struct range range;
        int image = 0;
        memcpy(&word, block + at, 8);
        for (int surface = 0; surface < 2; surface++) {
            const struct object *object = object_at(word, surface);
            if (!object) continue;
            put(handles, "%s[%zu, %zu]", handles->length ? ", " : "", at, own_object(object));
            image = 1;
        }
        if (image || word < 4096) continue;
        /* A pointer behind the last byte of an allocation belongs to it when nothing begins there. */
        int found = range_at(word, &range) || (range_at(word - 1, &range) && range.base + range.bytes == word);
        long index = found ? own_range(range, notes) : -1;
        if (index >= 0) put(pointers, "%s[%zu, %ld]", pointers->length ? ", " : "", at, index);
    }
}

static void name_variables(int image, handle module, int architecture, struct text *notes) {
    if (image == NO_IMAGE) return;
    const char *names = variable_names(image, architecture);
    if (!names) {
        add_note(notes, "its module's variables are not recorded: their names are not known");
        return;
    }
    for (const char *next; (next = strchr(names, '\n')); names = next + 1) {
        struct variable v = {.name = names, .length = (size_t)(next - names), .range = {.kind = "variable"}};
        char *name = strndup(names, v.length);
        result error = cuModuleGetGlobal && module ? cuModuleGetGlobal(&v.range.base, &v.range.bytes, module, name) : -1;
        if (error) add_note(notes, "the module variable %s is not recorded: %s", name, error_name(error));
        else if (v.range.bytes > settings.most_bytes - now.bytes)
            add_note(notes, "the module variable %s with %zu bytes was left out (--max-bytes)", name, v.range.bytes);
        free(name);
        if (error || v.range.bytes > settings.most_bytes - now.bytes) continue;
        now.bytes += v.range.bytes;
        now.variables = realloc(now.variables, (now.variable_count + 1) * sizeof *now.variables);
        if (!now.variables) abort();
        now.variables[now.variable_count++] = v;
    }
}

/* -- the two lines ----------------------------------------------------------------------------------------------------------- */

static void put_contents(struct text *line, struct text *notes, int whole) {
    put(line, ", \"allocations\": [");
    for (size_t i = 0; i < now.range_count; i++) {
        if (whole)
            put(line, "%s{\"base\": %llu, \"size\": %zu, \"kind\": \"%s\", \"contents\": ", i ? ", " : "",
                (unsigned long long)now.ranges[i].base, now.ranges[i].bytes, now.ranges[i].kind);
        else put(line, "%s{\"contents\": ", i ? ", " : "");
        put_range(line, notes, now.ranges[i]);
        put(line, "}");
    }
    put(line, "], \"images\": [");
    for (size_t i = 0; i < now.object_count; i++) {
        put(line, "%s{", i ? ", " : "");
        if (whole) put_object(line, notes, &now.objects[i]), put(line, ", ");
        put(line, "\"contents\": ");
        put_texels(line, notes, &now.objects[i]);
        put(line, "}");
    }
    put(line, "], \"variables\": [");
    for (size_t i = 0; i < now.variable_count; i++) {
        char *name = strndup(now.variables[i].name, now.variables[i].length);
        put(line, "%s{\"name\": ", i ? ", " : "");
        put_quoted(line, name);
        put(line, ", \"contents\": ");
        put_range(line, notes, now.variables[i].range);
        put(line, "}");
        free(name);
    }
    put(line, "], \"notes\": [%s]}", notes->length ? notes->data : "");
}

static void put_head(struct text *line, const struct launch *l, const unsigned char *block, size_t bytes, const char *image) {
    put(line, "{\"what\": \"launch\", \"number\": %ld, \"kernel\": ", l->number);
    put_quoted(line, l->kernel);
    put(line, ", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared_bytes\": %u, \"cooperative\": %s, \"cluster\": ", l->grid[0],
        l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared_bytes, l->cooperative ? "true" : "false");
    if (l->cluster[0]) put(line, "[%u, %u, %u]", l->cluster[0], l->cluster[1], l->cluster[2]);
    else put(line, "null");
    put(line, ", \"image\": ");
    if (image) put_quoted(line, image);
    else put(line, "null");
    put(line, ", \"args\": ");
    put_hex(line, block, bytes);
}

/* Work in the context of the launch's stream, and wait until nothing runs there. */
static const char *settle(handle stream) {
    handle current = NULL, wanted = NULL;
    int named = (uintptr_t)stream > STREAM_PER_THREAD;
    if (named && cuStreamGetCtx && !cuStreamGetCtx(stream, &wanted) && !cuCtxGetCurrent(&current) && wanted != current)
        now.context = cuCtxPushCurrent(wanted) ? NULL : wanted;
    result error = cuCtxSynchronize();
    return error ? error_name(error) : NULL;
}

/* 90 for sm_90, 0 when the driver does not say. */
static int card_architecture(void) {
    int device, major, minor;
    if (!cuCtxGetDevice || !cuDeviceGetAttribute || cuCtxGetDevice(&device)) return 0;
    if (cuDeviceGetAttribute(&major, DEVICE_MAJOR, device) || cuDeviceGetAttribute(&minor, DEVICE_MINOR, device)) return 0;
    return 10 * major + minor;
}

static void leave(void) {
    handle popped;
    if (now.context) cuCtxPopCurrent(&popped);
    forget();
}

const char *launch_begin(const struct launch *launch) {
    unsigned char *block = NULL;
    struct parameter *parameters = NULL;
    size_t bytes = 0, count = 0;
    handle function, module;
    struct text line = {0}, pointers = {0}, handles = {0}, notes = {0};
    const char *why, *digest = NULL, *fault = settle(launch->stream);
    if (!fault) {
        int image = image_of(launch->function, &function, &module), architecture = card_architecture();
        fault = argument_block(launch, function, &block, &bytes, &parameters, &count);
        if (!fault) {
            now.number = launch->number;
            digest = stored_image(image, &why);
            if (!digest) add_note(&notes, "its module is not recorded: %s", why);
            for (size_t i = 0; i < count; i++) name_words(block, parameters[i], &pointers, &handles, &notes);
            name_variables(image, module, architecture, &notes);
            write_live();
            put_head(&line, launch, block, bytes, digest);
            put(&line, ", \"architecture\": %d", architecture);
            put(&line, ", \"parameters\": [");
            for (size_t i = 0; i < count; i++) put(&line, "%s[%zu, %zu]", i ? ", " : "", parameters[i].offset, parameters[i].bytes);
            put(&line, "], \"pointers\": [%s]", pointers.length ? pointers.data : "");
            put(&line, ", \"handles\": [%s]", handles.length ? handles.data : "");
            put_contents(&line, &notes, 1);
            write_line(&line);
        }
    }
    free(block), free(parameters), free(line.data), free(pointers.data), free(handles.data), free(notes.data);
    if (fault) leave();
    return fault;
}

void launch_end(result error) {
    struct text line = {0}, notes = {0};
    put(&line, "{\"what\": \"after\", \"number\": %ld", now.number);
    if (error) add_note(&notes, "the driver refused the launch: %s", error_name(error));
    else if ((error = cuCtxSynchronize())) add_note(&notes, "the kernel failed: %s", error_name(error));
    if (error) put(&line, ", \"failed\": true");
    if (error) now.range_count = now.object_count = now.variable_count = 0; /* what it left is not known */
    put_contents(&line, &notes, 0);
    write_line(&line);
    free(line.data), free(notes.data);
    leave();
}
