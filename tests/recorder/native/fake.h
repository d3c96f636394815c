/* A driver of our own for tests: device memory is host memory at fixed addresses, kernels are C functions, and every call goes through the
   callbacks that a CUPTI of our own hands out. Only what the recorder and the test program call is there. */

#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef struct opaque *CUcontext, *CUstream, *CUmodule, *CUlibrary, *CUfunction, *CUkernel, *CUarray;

struct fake_resource {
    int type;
    union {
        CUarray array;
        struct {
            CUdeviceptr base;
            unsigned format, channels;
            size_t bytes;
        } linear;
        struct {
            CUdeviceptr base;
            unsigned format, channels;
            size_t width, height, pitch;
        } plane;
        int whole[32];
    } of;
    unsigned flags;
};

struct fake_texture {
    int addressing[3], filter;
    unsigned flags, anisotropy;
    int mipmap_filter;
    float numbers[7];
    int reserved[12];
};

struct fake_array_descriptor {
    size_t width, height, depth;
    unsigned format, channels, flags;
};

struct fake_attribute {
    int id;
    char pad[4];
    union {
        int flag;
        unsigned cluster[3];
        char whole[64];
    } value;
};

struct fake_config {
    unsigned grid[3], block[3], shared;
    CUstream stream;
    struct fake_attribute *attributes;
    unsigned count;
};

CUresult cuInit(unsigned flags);
CUresult cuMemAlloc_v2(CUdeviceptr *made, size_t bytes);
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, uint64_t from, uint64_t flags);
CUresult cuMemFree_v2(CUdeviceptr at);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuModuleLoadData(CUmodule *made, const void *image);
CUresult cuModuleGetFunction(CUfunction *made, CUmodule module, const char *name);
CUresult cuLibraryLoadData(CUlibrary *made, const void *image, void *, void *, unsigned, void *, void *, unsigned);
CUresult cuLibraryGetKernel(CUkernel *made, CUlibrary library, const char *name);
CUresult cuLinkAddData_v2(void *state, int type, void *data, size_t bytes, const char *name, unsigned, void *, void **);
CUresult cuLinkComplete(void *state, void **made, size_t *bytes);
CUresult cuLaunchKernel(CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuLaunchKernelEx(const struct fake_config *config, CUfunction f, void **parameters, void **extra);
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **);
CUresult cuGraphLaunch(void *graph, CUstream stream);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, void **graph);
CUresult cuArray3DCreate_v2(CUarray *made, const struct fake_array_descriptor *descriptor);
CUresult cuMipmappedArrayCreate(CUarray *made, const struct fake_array_descriptor *descriptor, unsigned levels);
CUresult cuMipmappedArrayGetLevel(CUarray *made, CUarray mipmapped, unsigned level);
void *fake_texels(CUarray array);
CUresult cuTexObjectCreate(uint64_t *made, const struct fake_resource *resource, const struct fake_texture *texture, const void *view);
CUresult cuSurfObjectCreate(uint64_t *made, const struct fake_resource *resource);
CUresult cuCtxSynchronize(void);
