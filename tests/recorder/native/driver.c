/* The driver; see fake.h. Kernels, by name, over their arguments:

     fill(u64 to, u32 count, u32 value)      stores count words
     add(u64 to, u64 from, u32 count)        adds words
     crash()                                 ends the process
     fail()                                  leaves an error behind that the next wait returns
     shade(u64 texture, u64 surface)         stores each texel byte plus one
     count()                                 adds one to the module variable counter
     slow(u64 to)                            two stores with a pause between them
     look(u64 texture)                       nothing                                                       */

#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 4096, FIRST = 0x20000 };

struct fake_call {
    int site;
    const char *function;
    const void *arguments;
    void *returned;
    const char *symbol;
    void *context;
    uint32_t context_number;
    uint64_t *shared;
    uint32_t correlation;
};

struct opaque {
    char name[64];
    struct opaque *from; /* a kernel's library, a function's module */
    struct fake_array_descriptor shape;
    unsigned char *texels;
    uint32_t *counter;
    struct opaque *below; /* the next level of a mipmapped array */
};

static struct {
    CUdeviceptr base;
    size_t bytes;
    int mapped;
} memory[MOST];
static int memory_count, pending, capturing;
static unsigned launched;
static struct fake_resource resources[64];
static int resource_count = 1;
static uintptr_t next_place = 0x200000000000u;

/* Set by the CUPTI of ours. */
__attribute__((visibility("default"))) void (*fake_callback)(const char *name, const struct fake_call *call);

static void tell(const char *name, int site, const void *arguments, CUresult *returned, const char *symbol) {
    struct fake_call call = {.site = site, .function = name, .arguments = arguments, .returned = returned, .symbol = symbol};
    if (fake_callback) fake_callback(name, &call);
}

#define CALL(name, body, ...)                          \
    CUresult returned = 0;                             \
    const struct __VA_ARGS__;                          \
    tell(name, 0, &arguments, NULL, NULL);             \
    body;                                              \
    tell(name, 1, &arguments, &returned, NULL);        \
    return returned

CUresult cuInit(unsigned flags) {
    static int done;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    (void)flags;
    if (done++ || !path) return 0;
    void *library = dlopen(path, RTLD_NOW);
    int (*start)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (!start) fprintf(stderr, "fake driver: %s\n", dlerror());
    else start();
    return 0;
}

CUresult cuDriverGetVersion(int *version) { return *version = 13000, 0; }
CUresult cuGetErrorName(CUresult error, const char **name) { return *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE", 0; }
CUresult cuCtxSynchronize(void) { return pending; }
CUresult cuCtxGetDevice(int *device) { return *device = 0, 0; }
CUresult cuDeviceGetAttribute(int *value, int which, int device) { return (void)device, *value = which == 75 ? 9 : 0, 0; }
CUresult cuStreamIsCapturing(CUstream stream, int *status) { return *status = capturing && (uintptr_t)stream == 0x77, 0; }

static CUdeviceptr reserve(CUdeviceptr at, size_t bytes, int mapped) {
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    size_t room = (bytes + 4095) / 4096 * 4096;
    pthread_mutex_lock(&turn);
    void *made = mmap((void *)(at ? at : next_place), room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (made == MAP_FAILED) abort();
    if (!at) next_place += room + (1 << 20);
    memory[memory_count].base = (CUdeviceptr)made, memory[memory_count].bytes = bytes, memory[memory_count].mapped = mapped;
    memory_count++;
    pthread_mutex_unlock(&turn);
    return (CUdeviceptr)made;
}

CUresult cuMemAlloc_v2(CUdeviceptr *made, size_t bytes) {
    CALL("cuMemAlloc_v2", *made = reserve(0, bytes, 0), { CUdeviceptr *made; size_t bytes; } arguments = {made, bytes});
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, uint64_t from, uint64_t flags) {
    CALL("cuMemMap", reserve(at, bytes, 1), { CUdeviceptr at; size_t bytes, offset; uint64_t from, flags; } arguments = {at, bytes, offset, from, flags});
}

CUresult cuMemFree_v2(CUdeviceptr at) {
    CALL("cuMemFree_v2", for (int i = 0; i < memory_count; i++) if (memory[i].base == at) memory[i].bytes = 0, { CUdeviceptr at; } arguments = {at});
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    CALL("cuMemcpyHtoD_v2", memcpy((void *)to, from, bytes), { CUdeviceptr to; const void *from; size_t bytes; } arguments = {to, from, bytes});
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) { return memcpy(to, (void *)from, bytes), 0; }

CUresult cuPointerGetAttribute(void *value, int which, CUdeviceptr at) {
    for (int i = 0; i < memory_count; i++)
        if (!memory[i].mapped && at - memory[i].base < memory[i].bytes) {
            if (which == 11) memcpy(value, &memory[i].base, 8);
            else if (which == 12) memcpy(value, &memory[i].bytes, 8);
            else memcpy(value, &(unsigned){which == 2 ? 2 : 0}, 4);
            return 0;
        }
    return 1;
}

/* -- code -------------------------------------------------------------------------------------------------------------------- */

static struct opaque *thing(const char *name, struct opaque *from) {
    struct opaque *made = calloc(1, sizeof *made);
    snprintf(made->name, sizeof made->name, "%s", name);
    made->from = from;
    return made;
}

CUresult cuModuleLoadData(CUmodule *made, const void *image) {
    CALL("cuModuleLoadData", *made = thing("module", NULL), { CUmodule *made; const void *image; } arguments = {made, image});
}

CUresult cuLibraryLoadData(CUlibrary *made, const void *image, void *a, void *b, unsigned c, void *d, void *e, unsigned f) {
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    CALL("cuLibraryLoadData", (*made = thing("library", NULL))->from = thing("module", NULL), { CUlibrary *made; const void *image; } arguments = {made, image});
}

CUresult cuLibraryGetModule(CUmodule *made, CUlibrary library) { return *made = library->from, *made ? 0 : 1; }
CUresult cuModuleGetFunction(CUfunction *made, CUmodule module, const char *name) { return *made = thing(name, module), 0; }

CUresult cuLibraryGetKernel(CUkernel *made, CUlibrary library, const char *name) {
    CALL("cuLibraryGetKernel", *made = thing(name, library), { CUkernel *made; CUlibrary library; const char *name; } arguments = {made, library, name});
}

CUresult cuKernelGetFunction(CUfunction *made, CUkernel kernel) { return *made = thing(kernel->name, kernel->from->from), 0; }
CUresult cuFuncGetModule(CUmodule *made, CUfunction f) { return *made = f->from, 0; }
CUresult cuFuncGetName(const char **name, CUfunction f) { return *name = f->name, 0; }

CUresult cuLinkAddData_v2(void *state, int type, void *data, size_t bytes, const char *name, unsigned count, void *a, void **b) {
    (void)name, (void)count, (void)a, (void)b;
    CALL("cuLinkAddData_v2", (void)0, { void *state; int type; void *data; size_t bytes; } arguments = {state, type, data, bytes});
}

/* An ELF file of its head alone. */
CUresult cuLinkComplete(void *state, void **made, size_t *bytes) {
    static unsigned char cubin[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, [32] = 64, [58] = 64};
    CALL("cuLinkComplete", (*made = cubin, *bytes = sizeof cubin), { void *state; void **made; size_t *bytes; } arguments = {state, made, bytes});
}

static CUdeviceptr counter_of(struct opaque *module) {
    if (!module->counter) module->counter = (uint32_t *)reserve(0, 4, 0);
    return (CUdeviceptr)module->counter;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule module, const char *name) {
    if (strcmp(name, "counter")) return 500;
    return *at = counter_of(module), *bytes = 4, 0;
}

#ifndef OLD_DRIVER
static const struct {
    const char *name;
    int count;
    size_t bytes[4];
} signatures[] = {{"fill", 3, {8, 4, 4}}, {"add", 3, {8, 8, 4}}, {"crash", 0, {0}}, {"fail", 0, {0}}, {"shade", 2, {8, 8}}, {"count", 0, {0}}, {"slow", 1, {8}}, {"look", 1, {8}}};

CUresult cuFuncGetParamInfo(CUfunction f, size_t number, size_t *offset, size_t *bytes) {
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (!strcmp(signatures[i].name, f->name) && number < (size_t)signatures[i].count) {
            *offset = 0;
            for (size_t n = 0; n < number; n++) *offset += signatures[i].bytes[n];
            *bytes = signatures[i].bytes[number];
            return 0;
        }
    return 1;
}
#endif

static void run(struct opaque *f, void **p, unsigned char *block) {
    void *packed[3] = {block, block + 8, block + (strcmp(f->name, "fill") ? 16 : 12)};
    if (!p) p = packed;
    if (!strcmp(f->name, "crash")) _exit(9);
    if (!strcmp(f->name, "fail")) pending = 700;
    if (!strcmp(f->name, "count")) ++*(uint32_t *)counter_of(f->from && !strcmp(f->from->name, "library") ? f->from->from : f->from);
    if (!strcmp(f->name, "fill"))
        for (uint32_t i = 0; i < *(uint32_t *)p[1]; i++) (*(uint32_t **)p[0])[i] = *(uint32_t *)p[2];
    if (!strcmp(f->name, "add"))
        for (uint32_t i = 0; i < *(uint32_t *)p[2]; i++) (*(uint32_t **)p[0])[i] += (*(uint32_t **)p[1])[i];
    if (!strcmp(f->name, "slow")) {
        ++**(volatile uint32_t **)p[0];
        usleep(2000);
        ++**(volatile uint32_t **)p[0];
    }
    if (!strcmp(f->name, "shade")) {
        struct opaque *from = resources[*(uint64_t *)p[0]].of.array, *to = resources[*(uint64_t *)p[1]].of.array;
        for (size_t i = 0; i < to->shape.width * to->shape.height * to->shape.channels; i++) to->texels[i] = from->texels[i] + 1;
    }
}

static CUresult launch(const char *name, const void *arguments, struct opaque *f, CUstream stream, void **p, void **extra) {
    CUresult returned = 0;
    tell(name, 0, arguments, NULL, getenv("FAKE_NO_SYMBOLS") ? NULL : f->name);
    if (!(capturing && (uintptr_t)stream == 0x77)) run(f, p, extra ? extra[1] : NULL);
    __atomic_fetch_add(&launched, 1, __ATOMIC_RELAXED);
    tell(name, 1, arguments, &returned, f->name);
    return returned;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **p, void **e) {
    struct { CUfunction f; unsigned g[3], b[3], shared; CUstream s; void **p, **e; } arguments = {f, {gx, gy, gz}, {bx, by, bz}, shared, s, p, e};
    return launch("cuLaunchKernel", &arguments, f, s, p, e);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **p) {
    struct { CUfunction f; unsigned g[3], b[3], shared; CUstream s; void **p; } arguments = {f, {gx, gy, gz}, {bx, by, bz}, shared, s, p};
    return launch("cuLaunchCooperativeKernel", &arguments, f, s, p, NULL);
}

CUresult cuLaunchKernelEx(const struct fake_config *c, CUfunction f, void **p, void **e) {
    struct { const struct fake_config *c; CUfunction f; void **p, **e; } arguments = {c, f, p, e};
    return launch("cuLaunchKernelEx", &arguments, f, c->stream, p, e);
}

CUresult cuGraphLaunch(void *graph, CUstream stream) {
    CALL("cuGraphLaunch", (void)0, { void *graph; CUstream stream; } arguments = {graph, stream});
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    CALL("cuStreamBeginCapture_v2", capturing = 1, { CUstream stream; int mode; } arguments = {stream, mode});
}

CUresult cuStreamEndCapture(CUstream stream, void **graph) {
    CALL("cuStreamEndCapture", capturing = 0, { CUstream stream; void **graph; } arguments = {stream, graph});
}

/* -- images ------------------------------------------------------------------------------------------------------------------ */

static size_t texel_bytes(const struct fake_array_descriptor *d) { return d->channels * (d->format == 32 ? 4 : d->format == 16 ? 2 : 1); }

CUresult cuArray3DCreate_v2(CUarray *made, const struct fake_array_descriptor *d) {
    *made = thing("array", NULL);
    (*made)->shape = *d;
    (*made)->texels = calloc(d->width * (d->height ? d->height : 1) * (d->depth ? d->depth : 1), texel_bytes(d));
    return 0;
}

void *fake_texels(CUarray array) { return array->texels; }
CUresult cuArray3DGetDescriptor_v2(struct fake_array_descriptor *d, CUarray array) { return *d = array->shape, 0; }

CUresult cuTexObjectCreate(uint64_t *made, const struct fake_resource *r, const struct fake_texture *t, const void *view) {
    CALL("cuTexObjectCreate", resources[*made = (uint64_t)resource_count++] = *r,
         { uint64_t *made; const struct fake_resource *r; const struct fake_texture *t; const void *view; } arguments = {made, r, t, view});
}

CUresult cuSurfObjectCreate(uint64_t *made, const struct fake_resource *r) {
    CALL("cuSurfObjectCreate", resources[*made = (uint64_t)resource_count++] = *r, { uint64_t *made; const struct fake_resource *r; } arguments = {made, r});
}

struct half { size_t x, y, z, level; int type; char *host; CUdeviceptr device; CUarray array; void *reserved; size_t pitch, height; };

struct fake_copy { struct half from, to; size_t width, height, depth; };

CUresult cuMemcpy3D_v2(const struct fake_copy *c) {
    for (size_t z = 0; z < c->depth; z++)
        for (size_t y = 0; y < c->height; y++)
            memcpy(c->to.host + (z * c->to.height + y) * c->to.pitch,
                   c->from.type == 3 ? c->from.array->texels + (z * c->height + y) * c->width : (unsigned char *)c->from.device + y * c->from.pitch, c->width);
    return 0;
}

CUresult cuMipmappedArrayCreate(CUarray *made, const struct fake_array_descriptor *descriptor, unsigned levels) {
    struct fake_array_descriptor d = *descriptor;
    for (unsigned i = 0; i < levels; i++, made = &(*made)->below) {
        cuArray3DCreate_v2(made, &d);
        d.width = d.width > 1 ? d.width / 2 : 1, d.height = d.height > 1 ? d.height / 2 : d.height;
    }
    return 0;
}

CUresult cuMipmappedArrayGetLevel(CUarray *made, CUarray mipmapped, unsigned level) {
    while (mipmapped && level--) mipmapped = mipmapped->below;
    return *made = mipmapped, mipmapped ? 0 : 1;
}
