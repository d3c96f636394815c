/* Looking up the driver's functions; see driver.h. */

#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>

#define DEFINE(name, symbol, arguments) result(*name) arguments;
DRIVER_FUNCTIONS(DEFINE)
#undef DEFINE

int load_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!library) library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return 0;
#define FIND(name, symbol, arguments) name = (result(*) arguments)dlsym(library, #symbol);
    DRIVER_FUNCTIONS(FIND)
#undef FIND
    return 1;
}

const char *error_name(result error) {
    const char *name = NULL;
    static __thread char number[24];
    if (cuGetErrorName && !cuGetErrorName(error, &name) && name) return name;
    snprintf(number, sizeof number, "error %d", error);
    return number;
}
