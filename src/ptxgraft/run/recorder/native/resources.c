/* Memory and images; see resources.h. */

#include "resources.h"

#include <stdlib.h>
#include <string.h>

#include "chunks.h"
#include "driver.h"

struct live {
    address base;
    size_t bytes;
    int mapped;
};

static struct live *lives;
static size_t live_count, live_room;
static int live_changed = 1;
static struct object *objects;
static size_t object_count, object_room;

static void *grown(void *items, size_t count, size_t *room, size_t each) {
    if (count < *room) return items;
    *room = *room * 2 + 64;
    items = realloc(items, *room * each);
    if (!items) abort();
    return items;
}

/* -- what is alive ---------------------------------------------------------------------------------------------------------- */

static size_t place_of(address base) { /* the first live range at or behind an address: they are in order */
    size_t low = 0, high = live_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (lives[middle].base < base) low = middle + 1;
        else high = middle;
    }
    return low;
}

void memory_live(address base, size_t bytes, int mapped) {
    size_t at = place_of(base);
    live_changed = 1;
    if (at == live_count || lives[at].base != base) {
        lives = grown(lives, live_count, &live_room, sizeof *lives);
        memmove(lives + at + 1, lives + at, (live_count - at) * sizeof *lives);
        live_count++;
    }
    lives[at] = (struct live){base, bytes, mapped};
}

void memory_gone(address base) {
    size_t at = place_of(base);
    if (at == live_count || lives[at].base != base) return;
    live_changed = 1;
    memmove(lives + at, lives + at + 1, (live_count - at - 1) * sizeof *lives);
    live_count--;
}

static int mapped_at(address at, struct range *range) {
    size_t place = place_of(at + 1);
    if (!place || !lives[place - 1].mapped || at - lives[place - 1].base >= lives[place - 1].bytes) return 0;
    size_t first = place - 1, last = place - 1;
    while (first && lives[first - 1].mapped && lives[first - 1].base + lives[first - 1].bytes == lives[first].base) first--;
    while (last + 1 < live_count && lives[last + 1].mapped && lives[last].base + lives[last].bytes == lives[last + 1].base) last++;
    *range = (struct range){lives[first].base, lives[last].base + lives[last].bytes - lives[first].base, "mapped"};
    return 1;
}

int range_at(address at, struct range *range) {
    if (mapped_at(at, range)) return 1;
    unsigned type = 0, managed = 0;
    address base = 0;
    size_t bytes = 0;
    if (!cuPointerGetAttribute || cuPointerGetAttribute(&base, ATTRIBUTE_RANGE_START, at) || !base) return 0;
    if (cuPointerGetAttribute(&bytes, ATTRIBUTE_RANGE_SIZE, at) || !bytes) return 0;
    if (cuPointerGetAttribute(&type, ATTRIBUTE_MEMORY_TYPE, at)) return 0;
    if (cuPointerGetAttribute(&managed, ATTRIBUTE_IS_MANAGED, at)) managed = 0;
    *range = (struct range){base, bytes, managed & 0xff ? "managed" : type == MEMORY_HOST ? "host" : "device"};
    return 1;
}

void write_live(void) {
    if (!live_changed) return;
    struct text line = {0};
    put(&line, "{\"what\": \"live\", \"ranges\": [");
    for (size_t i = 0; i < live_count; i++)
        put(&line, "%s[%llu, %zu]", i ? ", " : "", (unsigned long long)lives[i].base, lives[i].bytes);
    put(&line, "]}");
    write_line(&line);
    free(line.data);
    live_changed = 0;
}

/* -- contents --------------------------------------------------------------------------------------------------------------- */

/* End a range: its chunks' names, or null and a note. `start` is where the line was before. */
static void put_chunks(struct text *line, struct text *notes, size_t start, size_t bytes, result error) {
    int unwritten = chunks_end();
    if (unwritten) add_note(notes, "contents could not be written: %s", strerror(unwritten));
    if (error || unwritten) {
        line->length = start;
        put(line, "null");
        return;
    }
    put(line, "{\"size\": %zu, \"chunks\": [", bytes);
    for (size_t i = 0; i * settings.chunk_bytes < bytes; i++) put(line, "%s\"%s\"", i ? ", " : "", chunk_name(i));
    put(line, "]}");
}

static size_t chunk_length(size_t number, size_t bytes) {
    size_t left = bytes - number * settings.chunk_bytes;
    return left < settings.chunk_bytes ? left : settings.chunk_bytes;
}

static size_t chunk_count(size_t bytes) { return (bytes + settings.chunk_bytes - 1) / settings.chunk_bytes; }

void put_range(struct text *line, struct text *notes, struct range range) {
    result error = 0;
    chunks_begin(chunk_count(range.bytes));
    for (size_t i = 0; !error && i < chunk_count(range.bytes); i++) {
        size_t bytes = chunk_length(i, range.bytes);
        address from = range.base + i * settings.chunk_bytes;
        error = cuMemcpyDtoH(chunk_buffer(), from, bytes);
        if (error) add_note(notes, "%zu bytes at 0x%llx could not be read: %s", bytes, (unsigned long long)from, error_name(error));
        else chunk_filled(i, bytes);
    }
    put_chunks(line, notes, line->length, range.bytes, error);
}

/* -- images ----------------------------------------------------------------------------------------------------------------- */

void object_made(struct object object) {
    object_gone(object.made, object.surface);
    objects = grown(objects, object_count, &object_room, sizeof *objects);
    objects[object_count++] = object;
}

void object_gone(address made, int surface) {
    for (size_t i = 0; i < object_count; i++)
        if (objects[i].made == made && objects[i].surface == surface) {
            objects[i] = objects[--object_count];
            return;
        }
}

const struct object *object_at(address made, int surface) {
    for (size_t i = 0; i < object_count; i++)
        if (objects[i].made == made && objects[i].surface == surface) return &objects[i];
    return NULL;
}

/* Bytes of one channel, by CUarray_format; 0 for formats whose texels are not a row of channels. */
static size_t channel_bytes(unsigned format) {
    switch (format) {
    case 1: case 8: case 192: case 193: case 194: case 198: case 199: case 200: return 1;
    case 2: case 9: case 16: case 195: case 196: case 197: case 201: case 202: case 203: return 2;
    case 3: case 10: case 32: return 4;
    }
    return 0;
}

enum { MOST_LEVELS = 32 };

struct levels { /* of one object: a single one unless its array is mipmapped */
    struct array shapes[MOST_LEVELS];
    handle arrays[MOST_LEVELS]; /* null: memory without an array */
    size_t count;
};

/* The levels of an object's texels, as their arrays' descriptors give them; none when there is no array to speak of. */
static struct levels levels_of(const struct object *object) {
    const struct resource *r = &object->resource;
    struct levels found = {.count = 0};
    if (r->type == RESOURCE_LINEAR) {
        size_t texel = channel_bytes(r->of.linear.format) * r->of.linear.channels;
        found.shapes[0] = (struct array){texel ? r->of.linear.bytes / texel : 0, 0, 0, r->of.linear.format, r->of.linear.channels, 0};
        found.count = 1;
    } else if (r->type == RESOURCE_PITCH) {
        found.shapes[0] = (struct array){r->of.plane.width, r->of.plane.height, 0, r->of.plane.format, r->of.plane.channels, 0};
        found.count = 1;
    } else if (r->type == RESOURCE_ARRAY) {
        found.arrays[0] = r->of.array;
        found.count = cuArray3DGetDescriptor && !cuArray3DGetDescriptor(&found.shapes[0], r->of.array);
    } else if (r->type == RESOURCE_MIPMAPPED && cuMipmappedArrayGetLevel && cuArray3DGetDescriptor) {
        handle *level = found.arrays;
        while (found.count < MOST_LEVELS && !cuMipmappedArrayGetLevel(level, r->of.array, (unsigned)found.count) &&
               !cuArray3DGetDescriptor(&found.shapes[found.count], *level))
            level = &found.arrays[++found.count];
    }
    return found;
}

static unsigned bits_of(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void put_object(struct text *line, struct text *notes, const struct object *object) {
    const struct texture *t = &object->texture;
    struct levels levels = levels_of(object);
    struct array shape = levels.shapes[0];
    unsigned long long made = object->made;
    const char *kind = object->surface ? "surface" : "texture";
    if (!levels.count) add_note(notes, "%s 0x%llx: the driver does not describe its array", kind, made);
    if (object->viewed) add_note(notes, "%s 0x%llx: it was made with a resource view, which is not recorded", kind, made);
    if (t->flags & TEXTURE_SRGB) add_note(notes, "%s 0x%llx: it converts from sRGB, which is not recorded", kind, made);
    if (t->border[0] != 0 || t->border[1] != 0 || t->border[2] != 0 || t->border[3] != 0)
        add_note(notes, "%s 0x%llx: its border colour is not recorded", kind, made);
    put(line, "\"kind\": \"%s\", \"handle\": %llu, \"width\": %zu, \"height\": %zu, \"depth\": %zu", kind, made, shape.width,
        shape.height, shape.depth);
    put(line, ", \"format\": %u, \"channels\": %u, \"array_flags\": %u", shape.format, shape.channels, shape.flags);
    put(line, ", \"addressing\": [%d, %d, %d]", t->addressing[0], t->addressing[1], t->addressing[2]);
    put(line, ", \"filter\": %d, \"flags\": %u", t->filter, t->flags);
    /* Floats as bits: a level's bound may be infinite, which JSON has no word for. */
    put(line, ", \"linear\": %s", object->resource.type == RESOURCE_LINEAR ? "true" : "false");
    put(line, ", \"levels\": %zu, \"mip_filter\": %d", levels.count, t->mipmap_filter);
    put(line, ", \"bias\": %u, \"lowest\": %u, \"highest\": %u", bits_of(t->bias), bits_of(t->least), bits_of(t->most));
}

static size_t row_bytes(const struct array *shape) { return channel_bytes(shape->format) * shape->channels * shape->width; }
static size_t row_count(const struct array *shape) { return (shape->height ? shape->height : 1) * (shape->depth ? shape->depth : 1); }

/* Copy one level's texels, row behind row. */
static result read_level(const struct object *object, const struct array *shape, handle array, char *to) {
    const struct resource *r = &object->resource;
    size_t row = row_bytes(shape);
    struct copy copy = {.width_bytes = row, .height = shape->height ? shape->height : 1, .depth = shape->depth ? shape->depth : 1};
    copy.to = (struct copy_end){.type = MEMORY_HOST, .host = to, .pitch = row, .height = copy.height};
    if (array) copy.from = (struct copy_end){.type = MEMORY_ARRAY, .array = array};
    else if (r->type == RESOURCE_LINEAR) return cuMemcpyDtoH(to, r->of.linear.base, row);
    else
        copy.from =
            (struct copy_end){.type = MEMORY_DEVICE, .device = r->of.plane.base, .pitch = r->of.plane.pitch, .height = copy.height};
    return cuMemcpy3D ? cuMemcpy3D(&copy) : -1;
}

void put_texels(struct text *line, struct text *notes, const struct object *object) {
    struct levels levels = levels_of(object);
    size_t bytes = 0, at = 0;
    unsigned long long made = object->made;
    result error = 0;
    for (size_t i = 0; i < levels.count; i++) bytes += row_bytes(&levels.shapes[i]) * row_count(&levels.shapes[i]);
    char *texels = bytes ? malloc(bytes) : NULL;
    if (!bytes && levels.count) add_note(notes, "image 0x%llx: texels of format %u are not recorded", made, levels.shapes[0].format);
    for (size_t i = 0; texels && !error && i < levels.count; i++) {
        error = read_level(object, &levels.shapes[i], levels.arrays[i], texels + at);
        at += row_bytes(&levels.shapes[i]) * row_count(&levels.shapes[i]);
    }
    if (error) add_note(notes, "image 0x%llx: its texels could not be read: %s", made, error_name(error));
    if (error || !texels) put(line, "null");
    else {
        chunks_begin(chunk_count(bytes));
        for (size_t i = 0; i < chunk_count(bytes); i++) {
            memcpy(chunk_buffer(), texels + i * settings.chunk_bytes, chunk_length(i, bytes));
            chunk_filled(i, chunk_length(i, bytes));
        }
        put_chunks(line, notes, line->length, bytes, 0);
    }
    free(texels);
}
