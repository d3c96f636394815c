// Copies that overlap with work, counted by groups and by barrier objects.
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline_primitives.h>

extern "C" __global__ void two_stages(const float4 *in, float4 *out, int n) {
    __shared__ float4 stage[2][128];
    int lane = threadIdx.x, first = blockIdx.x * 128;
    __pipeline_memcpy_async(&stage[0][lane], &in[first + lane], 16);
    __pipeline_commit();
    for (int i = 0; i < n; i++) {
        int next = first + (i + 1) * gridDim.x * 128 + lane;
        __pipeline_memcpy_async(&stage[(i + 1) & 1][lane], &in[next], 16, i + 1 < n ? 0 : 8);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 v = stage[i & 1][127 - lane];
        out[first + i * gridDim.x * 128 + lane] = make_float4(v.w, v.z, v.y, v.x);
        __syncthreads();
    }
}

extern "C" __global__ void counted(const int *in, int *out) {
    __shared__ __mbarrier_t bar;
    __shared__ int tile[256];
    if (threadIdx.x == 0) __mbarrier_init(&bar, blockDim.x);
    __syncthreads();
    __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 4);
    __pipeline_arrive_on(&bar);
    __mbarrier_token_t token = __mbarrier_arrive(&bar);
    while (!__mbarrier_test_wait(&bar, token)) __nanosleep(20);
    out[threadIdx.x] = tile[threadIdx.x ^ 1] + __mbarrier_token_pending_count(token);
    __mbarrier_token_t dropped = __mbarrier_arrive_and_drop(&bar);
    while (!__mbarrier_test_wait(&bar, dropped)) {}
    __syncthreads();
    if (threadIdx.x == 0) __mbarrier_inval(&bar);
}
