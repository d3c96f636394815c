/* Which image a kernel comes from, and the names of that image's variables.

   Invariant: an image is kept as the program handed it over. One that lies in a loaded library is read when a launch first needs it, since
   frameworks load gigabytes that they never run; any other is stored at once, since the program may free it. */

#pragma once

#include "abi.h"

enum { NO_IMAGE = -1 };

/* A module or library was made from an image in memory, or from a file. */
void module_loaded(handle made, int library, const void *image);
void module_loaded_from_file(handle made, int library, const char *path);
void module_unloaded(handle gone);

void kernel_found(handle kernel, handle library);

/* The linker got PTX (cuLinkAddData), and made a cubin (cuLinkComplete). */
void link_input(handle state, const void *text, size_t bytes);
void link_done(handle state, const void *cubin, size_t bytes);

/* The function and module behind what a launch names (a CUfunction or a CUkernel), and the number of its image or NO_IMAGE. */
int image_of(handle launched, handle *function, handle *module);

/* The SHA-256 under which an image is stored, or null with the reason in `why`. */
const char *stored_image(int number, const char **why);

/* The names of an image's variables, one behind the other, each ended by a line end; null when nobody could say. */
const char *variable_names(int number, int architecture);
