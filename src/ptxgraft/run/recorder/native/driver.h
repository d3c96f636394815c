/* The driver's functions, found in the library that the program has loaded.

   Invariant: a function that this driver does not have is null; what depends on it is refused, never guessed. */

#pragma once

#include "abi.h"

#define DRIVER_FUNCTIONS(F)                                                                                             \
    F(cuDriverGetVersion, cuDriverGetVersion, (int *version))                                                           \
    F(cuGetErrorName, cuGetErrorName, (result error, const char **name))                                                \
    F(cuCtxSynchronize, cuCtxSynchronize, (void))                                                                       \
    F(cuCtxPushCurrent, cuCtxPushCurrent_v2, (handle context))                                                          \
    F(cuCtxPopCurrent, cuCtxPopCurrent_v2, (handle * context))                                                          \
    F(cuCtxGetCurrent, cuCtxGetCurrent, (handle * context))                                                             \
    F(cuCtxGetDevice, cuCtxGetDevice, (int *device))                                                                    \
    F(cuDeviceGetName, cuDeviceGetName, (char *name, int length, int device))                                           \
    F(cuDeviceGetAttribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                              \
    F(cuStreamGetCtx, cuStreamGetCtx, (handle stream, handle * context))                                                \
    F(cuStreamIsCapturing, cuStreamIsCapturing, (handle stream, int *status))                                           \
    F(cuPointerGetAttribute, cuPointerGetAttribute, (void *value, int attribute, address pointer))                      \
    F(cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *to, address from, size_t bytes))                                            \
    F(cuMemcpy3D, cuMemcpy3D_v2, (const struct copy *copy))                                                             \
    F(cuArray3DGetDescriptor, cuArray3DGetDescriptor_v2, (struct array * array, handle of))                             \
    F(cuMipmappedArrayGetLevel, cuMipmappedArrayGetLevel, (handle * array, handle mipmapped, unsigned level))          \
    F(cuFuncGetModule, cuFuncGetModule, (handle * module, handle function))                                             \
    F(cuFuncGetName, cuFuncGetName, (const char **name, handle function))                                               \
    F(cuFuncGetParamInfo, cuFuncGetParamInfo, (handle function, size_t number, size_t *offset, size_t *bytes))          \
    F(cuKernelGetFunction, cuKernelGetFunction, (handle * function, handle kernel))                                     \
    F(cuLibraryGetModule, cuLibraryGetModule, (handle * module, handle library))                                        \
    F(cuModuleGetGlobal, cuModuleGetGlobal_v2, (address * base, size_t *bytes, handle module, const char *name))

#define DECLARE(name, symbol, arguments) extern result(*name) arguments;
DRIVER_FUNCTIONS(DECLARE)
#undef DECLARE

/* Look the functions up; 0 when the driver's library is not there. */
int load_driver(void);

/* The driver's name for an error. */
const char *error_name(result error);
