"""The driver's numbers and structures, as far as our driver knows them."""

from __future__ import annotations

import enum
from types import SimpleNamespace

from ptxgraft.run.images import ADDRESS_MODES


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_FAILED = 719


def _numbers(name: str, *names: str):
    return enum.IntEnum(name, {n: i for i, n in enumerate(names)})


CUdevice_attribute = _numbers(
    "CUdevice_attribute",
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
    "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
    "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE",
)
CUjit_option = _numbers("CUjit_option", "CU_JIT_ERROR_LOG_BUFFER", "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES")
CUfunction_attribute = _numbers(
    "CUfunction_attribute", "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
)
CUstream_flags = _numbers("CUstream_flags", "CU_STREAM_DEFAULT", "CU_STREAM_NON_BLOCKING")
CUevent_flags = _numbers("CUevent_flags", "CU_EVENT_DEFAULT")
CUlimit = _numbers("CUlimit", "CU_LIMIT_STACK_SIZE", "CU_LIMIT_PRINTF_FIFO_SIZE")
CUmemAllocationType = _numbers("CUmemAllocationType", "INVALID", "CU_MEM_ALLOCATION_TYPE_PINNED")
CUmemLocationType = _numbers("CUmemLocationType", "INVALID", "CU_MEM_LOCATION_TYPE_DEVICE")
CUmemAllocationGranularity_flags = _numbers("CUmemAllocationGranularity_flags", "CU_MEM_ALLOC_GRANULARITY_MINIMUM")
CUmemAccess_flags = _numbers("CUmemAccess_flags", "NONE", "READ", "READ_WRITE", "CU_MEM_ACCESS_FLAGS_PROT_READWRITE")
CUmemorytype = _numbers("CUmemorytype", "NONE", "CU_MEMORYTYPE_HOST", "CU_MEMORYTYPE_DEVICE", "CU_MEMORYTYPE_ARRAY")
CUaddress_mode = _numbers("CUaddress_mode", *(f"CU_TR_ADDRESS_MODE_{m.upper()}" for m in ADDRESS_MODES))
CUfilter_mode = _numbers("CUfilter_mode", "CU_TR_FILTER_MODE_POINT", "CU_TR_FILTER_MODE_LINEAR")
CUresourcetype = _numbers("CUresourcetype", "CU_RESOURCE_TYPE_ARRAY", "CU_RESOURCE_TYPE_MIPMAPPED_ARRAY", "CU_RESOURCE_TYPE_LINEAR")
CUlaunchAttributeID = _numbers(
    "CUlaunchAttributeID", "IGNORE", "ACCESS", "CU_LAUNCH_ATTRIBUTE_COOPERATIVE", "SYNC", "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"
)
CUstreamWaitValue_flags = _numbers("CUstreamWaitValue_flags", "CU_STREAM_WAIT_VALUE_GEQ")


class CUdeviceptr(int):
    pass


def CUarray_format(code):
    return code


def CUDA_ARRAY3D_DESCRIPTOR():
    return SimpleNamespace()


CUDA_TEXTURE_DESC = CUDA_MEMCPY3D = CUlaunchConfig = CUlaunchAttribute = CUmemAccessDesc = CUDA_ARRAY3D_DESCRIPTOR


def CUlaunchAttributeValue():
    return SimpleNamespace(clusterDim=SimpleNamespace())


def CUDA_RESOURCE_DESC():
    return SimpleNamespace(res=SimpleNamespace(array=SimpleNamespace(), mipmap=SimpleNamespace(), linear=SimpleNamespace()))


def CUmemAllocationProp():
    return SimpleNamespace(location=SimpleNamespace())
