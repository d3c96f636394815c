/* Recording one launch: what it needs before it starts, what it left when it is done.

   Invariant: the line that says what was there before is in the journal before the launch starts. */

#pragma once

#include "abi.h"

struct launch {
    long number;
    const char *kernel;
    handle function, stream;
    unsigned grid[3], block[3], shared_bytes, cluster[3]; /* cluster[0] is 0 when the launch names none */
    int cooperative;
    void **parameters, **extra;
};

/* Write down a launch that is about to start. Gives null, or why it cannot be recorded. */
const char *launch_begin(const struct launch *launch);

/* The same launch came back from the driver with `error`: wait for it and write down what it left. */
void launch_end(result error);
