// What the language asks of the machine: output, heaps, recursion, switches, assertions, constants, dynamic shared memory, pointers to functions.
#include <assert.h>
#include <stdio.h>

__constant__ float weights[16] = {1, 2, 3, 4};
__device__ int counter = 5;
__device__ const int table[4] = {3, 1, 4, 1};
extern __shared__ float dynamic[];

__noinline__ __device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__noinline__ __device__ double half(double x) { return x * 0.5; }

extern "C" __global__ void speaks(int n, float *out) {
    printf("lane %d of %d: %f %s\n", threadIdx.x, n, out[threadIdx.x], "text");
    int *heap = (int *)malloc(4 * n);
    if (heap == nullptr) __trap();
    heap[0] = fibonacci(n);
    assert(heap[0] > 0);
    out[threadIdx.x] = heap[0] + half(n);
    free(heap);
}

extern "C" __global__ void __launch_bounds__(128, 2) decides(const int *in, float *out, int n) {
    int local[24];
    for (int i = 0; i < 24; i++) local[i] = in[i] * i;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        switch (in[i]) {
            case 0: sum += weights[i & 15]; break;
            case 1: sum -= __sinf(sum); break;
            case 2: sum *= expf(sum) + powf(sum, 1.5f); break;
            case 3: sum = fmodf(sum, 3.0f); break;
            case 4: sum += table[i & 3]; break;
            case 5: sum += local[in[i + 1] % 24]; break;
            case 6: sum = sqrtf(sum) / 3.0f; break;
            default: atomicAdd(&counter, 1);
        }
    }
    dynamic[threadIdx.x] = sum;
    __syncthreads();
    if (__syncthreads_or(sum > 3) && __syncthreads_count(sum > 1) > 4) out[threadIdx.x] = dynamic[threadIdx.x ^ 1];
    out[threadIdx.x + 32] = (float)(((double)sum / 7.0) + __umul64hi(n, 7) + (long long)in[0] / n);
}
