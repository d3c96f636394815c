/* Device memory, textures and surfaces: what is alive, and reading it.

   Invariant: an address belongs to what the driver says it belongs to; nothing is read that the driver does not know. */

#pragma once

#include "abi.h"
#include "journal.h"

struct range {
    address base;
    size_t bytes;
    const char *kind; /* "device", "managed", "host" or "mapped" */
};

struct object { /* a texture or surface object */
    address made;
    int surface, viewed;
    struct resource resource;
    struct texture texture;
};

/* Memory was allocated (`mapped`: by cuMemMap) or freed. */
void memory_live(address base, size_t bytes, int mapped);
void memory_gone(address base);

/* The allocation that an address lies in; 0 when there is none. Ranges mapped one behind the other are one. */
int range_at(address at, struct range *range);

/* The journal's line of all live allocations, when they changed since it was last written. */
void write_live(void);

void object_made(struct object object);
void object_gone(address made, int surface);
const struct object *object_at(address made, int surface);

/* Add the contents of a range to a line as {"size": n, "chunks": [...]}, or null and a note why not. */
void put_range(struct text *line, struct text *notes, struct range range);

/* Add what an object is, as members of a JSON object, and then its texels or null and a note. */
void put_object(struct text *line, struct text *notes, const struct object *object);
void put_texels(struct text *line, struct text *notes, const struct object *object);
