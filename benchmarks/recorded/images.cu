// A program with textures and surfaces of one, two and three dimensions, module variables, cooperative launches and memory of every kind, for
// recording. Prints a checksum of what it computed, which recording must not change.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../tests/kernels/cuda/textures.cu"

static void check(cudaError_t error, const char *call) {
    if (!error) return;
    fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
    exit(1);
}
#define CHECK(call) check(call, #call)

__device__ int counter = 40;
__constant__ float scales[4] = {1, 2, 3, 4};
static __device__ float kept[128];

extern "C" __global__ void scale(float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    values[i] = values[i] * scales[i & 3] + kept[64 + (i & 63)];
    if (i < 64) kept[i] += kept[64 + i] + 1;
    if (i == 0) counter += 2;
}

struct Pair {
    float *from, *to;
    int count;
};

extern "C" __global__ void gather(Pair pair, short step) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pair.count) pair.to[i] = pair.from[(i * step) % pair.count] + 0.5f;
}

extern "C" __global__ void together(unsigned *sums) {
    auto grid = cooperative_groups::this_grid();
    sums[1 + blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x + threadIdx.x;
    grid.sync();
    atomicAdd(sums, sums[1 + (grid.size() - 1 - blockIdx.x * blockDim.x - threadIdx.x)]);
}

extern "C" __global__ void pointers(float **table, float *out) { out[threadIdx.x] = table[threadIdx.x & 1][threadIdx.x]; }

// Layers, levels, memory read as a line and as a plane: eleven texels a thread.
extern "C" __global__ void kinds(cudaTextureObject_t layers, cudaTextureObject_t levels, cudaTextureObject_t line, cudaTextureObject_t plane, float *out) {
    int x = threadIdx.x, y = threadIdx.y, i = y * blockDim.x + x;
    float sum = tex1Dfetch<float>(line, i) + tex2D<float>(plane, x, y);
    for (int layer = 0; layer < 3; layer++) sum += tex2DLayered<float>(layers, x + 0.5f, y + 0.5f, layer) * (layer + 1);
    for (int level = 0; level < 3; level++) sum += tex2DLod<float>(levels, (x + 0.5f) / 8, (y + 0.5f) / 8, level) * 100;
    out[i] = sum;
}

extern "C" __global__ void ranks(unsigned *out) {
    auto cluster = cooperative_groups::this_cluster();
    if (!threadIdx.x) out[blockIdx.x] = 100 * cluster.block_rank() + cluster.num_blocks();
}

static unsigned long long checksum = 14695981039346656037ull;

static void mix(const void *device, size_t bytes) {
    std::vector<unsigned char> data(bytes);
    CHECK(cudaMemcpy(data.data(), device, bytes, cudaMemcpyDefault));
    for (unsigned char byte : data) checksum = (checksum ^ byte) * 1099511628211ull;
}

template <class Texel> static cudaArray_t array_of(int width, int height, int depth, unsigned flags, const std::vector<Texel> &texels) {
    cudaArray_t made;
    auto format = cudaCreateChannelDesc<Texel>();
    CHECK(cudaMalloc3DArray(&made, &format, make_cudaExtent(width, height, depth), flags));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(const_cast<Texel *>(texels.data()), width * sizeof(Texel), width, height ? height : 1);
    copy.dstArray = made;
    copy.extent = make_cudaExtent(width, height ? height : 1, depth ? depth : 1);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    return made;
}

static cudaTextureObject_t texture_of(cudaArray_t array, cudaTextureAddressMode mode, cudaTextureFilterMode filter, bool normalized) {
    cudaResourceDesc resource = {};
    cudaTextureDesc how = {};
    cudaTextureObject_t made;
    resource.resType = cudaResourceTypeArray, resource.res.array.array = array;
    how.addressMode[0] = how.addressMode[1] = how.addressMode[2] = mode, how.filterMode = filter, how.normalizedCoords = normalized;
    how.readMode = cudaReadModeElementType;
    CHECK(cudaCreateTextureObject(&made, &resource, &how, nullptr));
    return made;
}

static cudaSurfaceObject_t surface_of(cudaArray_t array) {
    cudaResourceDesc resource = {};
    cudaSurfaceObject_t made;
    resource.resType = cudaResourceTypeArray, resource.res.array.array = array;
    CHECK(cudaCreateSurfaceObject(&made, &resource));
    return made;
}

static void mix_array(cudaArray_t array, size_t row, size_t rows) {
    std::vector<unsigned char> data(row * rows);
    CHECK(cudaMemcpy2DFromArray(data.data(), row, array, 0, 0, row, rows, cudaMemcpyDeviceToHost));
    for (unsigned char byte : data) checksum = (checksum ^ byte) * 1099511628211ull;
}

static void images(float *out) {
    const int width = 32, height = 16;
    std::vector<float> plane(width * height);
    std::vector<float4> colours(width * height);
    std::vector<uchar4> bytes(50);
    std::vector<float> line(50);
    std::vector<float2> box(8 * 4 * 3);
    std::vector<ushort2> columns(16 * 3);
    for (size_t i = 0; i < plane.size(); i++) plane[i] = float(i * 7 % 1000), colours[i] = make_float4(i, i * 3 % 101, -float(i), i * i % 77);
    for (size_t i = 0; i < 50; i++) line[i] = float(i * i % 91), bytes[i] = make_uchar4(i, 2 * i, 3 * i, 5 * i);
    for (size_t i = 0; i < box.size(); i++) box[i] = make_float2(i, 1000 - float(i));
    for (size_t i = 0; i < columns.size(); i++) columns[i] = make_ushort2(i * 999, i);
    auto clamp = cudaAddressModeClamp, wrap = cudaAddressModeWrap, border = cudaAddressModeBorder;
    auto in = texture_of(array_of(width, height, 0, 0, plane), border, cudaFilterModePoint, false);
    stencil<<<dim3(4, 4), dim3(8, 4)>>>(in, out, width, height);
    mix(out, 4 * width * height);
    auto image = texture_of(array_of(width, height, 0, 0, colours), wrap, cudaFilterModeLinear, true);
    auto halved = array_of(width, height, 0, cudaArraySurfaceLoadStore, colours);
    halve<<<dim3(4, 4), dim3(8, 4)>>>(image, surface_of(halved), width, height);
    mix_array(halved, 16 * width, height);
    auto smooth = texture_of(array_of(50, 0, 0, 0, line), clamp, cudaFilterModeLinear, false);
    lines<<<2, 32>>>(smooth, texture_of(array_of(50, 0, 0, 0, bytes), clamp, cudaFilterModePoint, false), out, 50);
    mix(out, 400);
    boxes<<<3, dim3(8, 4)>>>(texture_of(array_of(8, 4, 3, 0, box), clamp, cudaFilterModePoint, false), reinterpret_cast<float2 *>(out), 8, 4, 3);
    mix(out, box.size() * 8);
    auto swapped = array_of(16, 3, 0, cudaArraySurfaceLoadStore, columns);
    swap_columns<<<3, 8>>>(surface_of(swapped), 16);
    mix_array(swapped, 64, 3);
}

static cudaTextureObject_t object_of(const cudaResourceDesc &resource, bool normalized, float most_level) {
    cudaTextureDesc how = {};
    cudaTextureObject_t made;
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp, how.readMode = cudaReadModeElementType;
    how.normalizedCoords = normalized, how.maxMipmapLevelClamp = most_level;
    CHECK(cudaCreateTextureObject(&made, &resource, &how, nullptr));
    return made;
}

static void other_kinds(float *out) {
    std::vector<float> texels(8 * 8 * 3);
    for (size_t i = 0; i < texels.size(); i++) texels[i] = float(i * i % 251);
    cudaResourceDesc layers = {}, levels = {}, line = {}, plane = {};
    auto format = cudaCreateChannelDesc<float>();
    layers.resType = cudaResourceTypeArray, layers.res.array.array = array_of(8, 8, 3, cudaArrayLayered, texels);
    levels.resType = cudaResourceTypeMipmappedArray;
    CHECK(cudaMallocMipmappedArray(&levels.res.mipmap.mipmap, &format, make_cudaExtent(8, 8, 0), 4));
    for (unsigned level = 0; level < 4; level++) {
        cudaArray_t array;
        size_t size = 8 >> level;
        CHECK(cudaGetMipmappedArrayLevel(&array, levels.res.mipmap.mipmap, level));
        CHECK(cudaMemcpy2DToArray(array, 0, 0, texels.data() + level, 4 * size, 4 * size, size, cudaMemcpyHostToDevice));
    }
    float *memory;
    size_t pitch;
    CHECK(cudaMalloc(&memory, 4 * texels.size()));
    CHECK(cudaMemcpy(memory, texels.data(), 4 * texels.size(), cudaMemcpyHostToDevice));
    line.resType = cudaResourceTypeLinear, line.res.linear = {memory, format, 4 * texels.size()};
    void *rows;
    CHECK(cudaMallocPitch(&rows, &pitch, 32, 8));
    CHECK(cudaMemcpy2D(rows, pitch, texels.data(), 32, 32, 8, cudaMemcpyHostToDevice));
    plane.resType = cudaResourceTypePitch2D, plane.res.pitch2D = {rows, format, 8, 8, pitch};
    kinds<<<1, dim3(8, 8)>>>(object_of(layers, false, 0), object_of(levels, true, 3), object_of(line, false, 0), object_of(plane, false, 0), out);
    mix(out, 256);
    cudaLaunchConfig_t config = {dim3(4), dim3(32), 0, nullptr};
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension, cluster.val.clusterDim = {2, 1, 1};
    config.attrs = &cluster, config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, ranks, reinterpret_cast<unsigned *>(out)));
    mix(out, 16);
}

static void memories(float *out) {
    float *managed, *pooled, *pinned, **table, *both[2];
    const int n = 1000;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMallocManaged(&managed, 4 * n));
    CHECK(cudaMallocAsync(&pooled, 4 * n, stream));
    CHECK(cudaMallocHost(&pinned, 4 * n));
    CHECK(cudaMalloc(&table, sizeof both));
    for (int i = 0; i < n; i++) managed[i] = float(i), pinned[i] = float(2 * i);
    scale<<<4, 256, 0, stream>>>(managed, n);
    gather<<<4, 256, 0, stream>>>(Pair{managed, pooled, n}, 7);
    gather<<<4, 256, 0, stream>>>(Pair{pinned, managed, n}, 3);
    CHECK(cudaStreamSynchronize(stream));
    mix(managed, 4 * n), mix(pooled, 4 * n);
    both[0] = managed, both[1] = out;
    CHECK(cudaMemcpy(table, both, sizeof both, cudaMemcpyHostToDevice));
    pointers<<<1, 32>>>(table, out + 64);
    mix(out + 64, 128);
    unsigned *sums;
    CHECK(cudaMalloc(&sums, 4 * 257));
    CHECK(cudaMemset(sums, 0, 4 * 257));
    void *arguments[] = {&sums};
    CHECK(cudaLaunchCooperativeKernel((const void *)together, dim3(4), dim3(64), arguments, 0, nullptr));
    mix(sums, 4 * 257);
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    scale<<<4, 256, 0, stream>>>(managed, n);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphLaunch(ready, stream));
    CHECK(cudaStreamSynchronize(stream));
    mix(managed, 4 * n);
}

// Stores to no memory at all.
extern "C" __global__ void fault(float *out) { out[threadIdx.x] = 1; }

// With an argument it ends with a kernel that fails.
int main(int count, char **) {
    float *out;
    CHECK(cudaMalloc(&out, 1 << 16));
    CHECK(cudaMemset(out, 0, 1 << 16));
    images(out);
    other_kinds(out);
    memories(out);
    if (count > 1) {
        fault<<<1, 32>>>(nullptr);
        CHECK(cudaDeviceSynchronize());
    }
    int counted;
    CHECK(cudaMemcpyFromSymbol(&counted, counter, 4));
    CHECK(cudaDeviceSynchronize());
    printf("checksum %016llx counter %d\n", checksum, counted);
    return 0;
}
