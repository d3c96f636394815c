/* What the CUDA driver and CUPTI are called with: the part of their binary interface that the recorder uses, declared from their
   documentation.

   Invariant: sizes and offsets are those of the driver API of CUDA 12.4 and later on 64-bit Linux; nothing here needs a vendor's header. */

#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int result; /* CUresult and CUptiResult: 0 is success */
typedef uint64_t address; /* CUdeviceptr, CUtexObject, CUsurfObject */
typedef void *handle; /* CUcontext, CUstream, CUmodule, CUlibrary, CUfunction, CUkernel, CUarray */

enum { STREAM_LEGACY = 1, STREAM_PER_THREAD = 2 };
enum { ATTRIBUTE_MEMORY_TYPE = 2, ATTRIBUTE_IS_MANAGED = 8, ATTRIBUTE_RANGE_START = 11, ATTRIBUTE_RANGE_SIZE = 12 };
enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_ARRAY = 3 };
enum { RESOURCE_ARRAY = 0, RESOURCE_MIPMAPPED = 1, RESOURCE_LINEAR = 2, RESOURCE_PITCH = 3 };
enum { ARRAY_LAYERED = 0x01, ARRAY_CUBEMAP = 0x04 };
enum { TEXTURE_READ_AS_INTEGER = 0x01, TEXTURE_NORMALIZED = 0x02, TEXTURE_SRGB = 0x10 };
enum { LAUNCH_END = 0, LAUNCH_BUFFER_POINTER = 1, LAUNCH_BUFFER_SIZE = 2 };
enum { LAUNCH_COOPERATIVE = 2, LAUNCH_CLUSTER = 4 };
enum { DEVICE_MAJOR = 75, DEVICE_MINOR = 76 };

struct launch_attribute { /* CUlaunchAttribute */
    int id;
    char pad[4];
    union {
        int flag;
        struct {
            unsigned x, y, z;
        } cluster;
        char whole[64];
    } value;
};

struct launch_config { /* CUlaunchConfig */
    unsigned grid[3], block[3], shared_bytes;
    handle stream;
    struct launch_attribute *attributes;
    unsigned count;
};

struct resource { /* CUDA_RESOURCE_DESC */
    int type;
    union {
        handle array;
        struct {
            address base;
            unsigned format, channels;
            size_t bytes;
        } linear;
        struct {
            address base;
            unsigned format, channels;
            size_t width, height, pitch;
        } plane;
        int whole[32];
    } of;
    unsigned flags;
};

struct texture { /* CUDA_TEXTURE_DESC */
    int addressing[3], filter;
    unsigned flags, anisotropy;
    int mipmap_filter;
    float bias, least, most, border[4];
    int reserved[12];
};

struct array { /* CUDA_ARRAY3D_DESCRIPTOR */
    size_t width, height, depth;
    unsigned format, channels, flags;
};

struct copy_end { /* one half of CUDA_MEMCPY3D */
    size_t x_bytes, y, z, level;
    int type;
    void *host;
    address device;
    handle array;
    void *reserved;
    size_t pitch, height;
};

struct copy { /* CUDA_MEMCPY3D */
    struct copy_end from, to;
    size_t width_bytes, height, depth;
};

/* -- CUPTI's callback interface: CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_API_ENTER and CUPTI_API_EXIT -- */

enum { DOMAIN_DRIVER = 1, SITE_ENTER = 0, SITE_EXIT = 1 };

struct call { /* CUpti_CallbackData */
    int site;
    const char *function;
    const void *arguments;
    void *returned;
    const char *symbol;
    handle context;
    uint32_t context_number;
    uint64_t *shared;
    uint32_t correlation;
};

typedef void (*callback)(void *own, int domain, uint32_t number, const struct call *call);

/* -- arguments of driver calls, as a callback sees them: in declared order, aligned like members of a struct -- */

struct launch_arguments { /* cuLaunchKernel; cuLaunchCooperativeKernel has no extra */
    handle function;
    unsigned grid[3], block[3], shared_bytes;
    handle stream;
    void **parameters, **extra;
};

struct launch_ex_arguments { /* cuLaunchKernelEx */
    const struct launch_config *config;
    handle function;
    void **parameters, **extra;
};

struct graph_arguments { /* cuGraphLaunch */
    handle graph, stream;
};

struct load_arguments { /* cuModuleLoadData, cuModuleLoadDataEx, cuModuleLoadFatBinary, cuLibraryLoadData */
    handle *made;
    const void *image;
};

struct load_file_arguments { /* cuModuleLoad, cuLibraryLoadFromFile */
    handle *made;
    const char *path;
};

struct kernel_arguments { /* cuLibraryGetKernel */
    handle *made;
    handle library;
    const char *name;
};

struct object_arguments { /* cuTexObjectCreate; cuSurfObjectCreate has no texture */
    address *made;
    const struct resource *resource;
    const struct texture *texture;
    const void *view;
};

struct value_arguments { /* cuTexObjectDestroy, cuSurfObjectDestroy, cuMemFree, cuMemFreeAsync, cuModuleUnload, cuLibraryUnload */
    address value;
};

struct allocate_arguments { /* cuMemAlloc, cuMemAllocManaged, cuMemAllocAsync, cuMemAllocFromPoolAsync */
    address *made;
    size_t bytes;
};

struct allocate_pitch_arguments { /* cuMemAllocPitch */
    address *made;
    size_t *pitch, width, height;
};

struct map_arguments { /* cuMemMap; cuMemUnmap has the first two */
    address base;
    size_t bytes;
};

struct link_add_arguments { /* cuLinkAddData */
    handle state;
    int type;
    void *data;
    size_t bytes;
};

struct link_arguments { /* cuLinkComplete */
    handle state;
    void **made;
    size_t *bytes;
};
