// What the language offers, in small kernels: structures, arrays, switches, integers of every width, bits, constants, globals, unions, vectors.
#include <cstdint>

// -- structures by value, arrays with an index known only at run time ------------------------------------------------
struct Item {
    int8_t sign;
    uint16_t count;
    double weight;
    float parts[3];
    struct { uint8_t r, g, b; } colour;
};

__device__ __noinline__ Item doubled(Item item, int which) {
    item.parts[which] *= 2;
    item.count += 1;
    item.colour.g ^= 0xFF;
    return item;
}

extern "C" __global__ void structures(const Item *in, Item *out, Item bias) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Item item = doubled(in[i], i % 3);
    item.weight += bias.weight * bias.parts[i % 3];
    item.sign = static_cast<int8_t>(item.sign * bias.sign);
    out[i] = item;
}

extern "C" __global__ void local_arrays(const int *order, int *out, int n) {
    int table[24];
    int thread = threadIdx.x;
    for (int i = 0; i < 24; i++) table[i] = i * i + thread;
    int at = thread % 24;
    for (int i = 0; i < n; i++) {
        at = (table[at] + order[i]) % 24;
        if (at < 0) at += 24;
        table[at] -= order[i] * 3;
    }
    int sum = 0;
    for (int i = 0; i < 24; i++) sum = sum * 31 + table[i];
    out[blockIdx.x * blockDim.x + thread] = sum;
}

// -- switches ---------------------------------------------------------------------------------------------------------
extern "C" __global__ void switches(const int *code, const int *x, const int *y, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, a = x[i], b = y[i], r = 0;
    switch (code[i]) {
        case 0: r = a + b; break;
        case 1: r = a - b; break;
        case 2: r = a * b; break;
        case 3: r = a & b; break;
        case 4: r = a | b; break;
        case 5: r = a ^ b;  // falls through
        case 6: r = ~r; break;
        case 7: r = a << (b & 31); break;
        case 8: r = a >> (b & 31); break;
        case 9: for (int k = 0; k < (b & 7); k++) r += a ^ k; break;
        case 10: r = a < b ? -a : -b; break;
        case 11: return;
        case 12: r = a + 3 * b; break;
        case 13: r = a / 8; break;
        case 14: r = a > b ? a : b; break;
        case 15: r = a < b ? a : b; break;
        case 16: r = a & 65535; break;
        case 17: r = b ^ 0x55555555; break;
        case 18: r = b < 0 ? -b : b; break;
        case 100: r = 100; break;
        default: r = -7;
    }
    out[i] = r;
}

// -- integer division and remainder, every width ---------------------------------------------------------------------
template <typename T>
__device__ void divide(const T *x, const T *y, T *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        T a = x[i], b = y[i];
        out[4 * i] = a / b;
        out[4 * i + 1] = a % b;
        out[4 * i + 2] = a / 7;
        out[4 * i + 3] = a % 10;
    }
}
#define DIVIDE(NAME, T) extern "C" __global__ void NAME(const T *x, const T *y, T *out, int n) { divide(x, y, out, n); }
DIVIDE(divide_i1, int8_t)
DIVIDE(divide_u1, uint8_t)
DIVIDE(divide_i2, int16_t)
DIVIDE(divide_u2, uint16_t)
DIVIDE(divide_i4, int32_t)
DIVIDE(divide_u4, uint32_t)
DIVIDE(divide_i8, long long)
DIVIDE(divide_u8, unsigned long long)

// -- 64 and 128 bits --------------------------------------------------------------------------------------------------
extern "C" __global__ void wide(const uint64_t *x, const uint64_t *y, uint64_t *out) {
    int i = threadIdx.x;
    uint64_t a = x[i], b = y[i], *o = out + 8 * i;
    unsigned __int128 product = static_cast<unsigned __int128>(a) * b, sum = (static_cast<unsigned __int128>(a) << 64 | b) + product;
    o[0] = __umul64hi(a, b);
    o[1] = static_cast<uint64_t>(__mul64hi(static_cast<int64_t>(a), static_cast<int64_t>(b)));
    o[2] = static_cast<uint64_t>(product);
    o[3] = static_cast<uint64_t>(sum >> 64);
    o[4] = a << (b & 63) | a >> (-b & 63);
    o[5] = static_cast<uint64_t>(static_cast<int64_t>(a) >> (b & 63));
    o[6] = a > b ? a - b : b - a;
    o[7] = __popcll(a) * 1000000 + __clzll(a) * 10000 + __ffsll(a) * 100 + (__brevll(b) & 63);
}

// -- bits -------------------------------------------------------------------------------------------------------------
extern "C" __global__ void bits(const uint32_t *x, const uint32_t *y, uint32_t *out) {
    int i = threadIdx.x;
    uint32_t a = x[i], b = y[i], *o = out + 28 * i;
    o[0] = __popc(a);
    o[1] = __clz(a);
    o[2] = __brev(a);
    o[3] = __ffs(a);
    o[4] = __byte_perm(a, b, b);
    o[5] = __funnelshift_l(a, b, a);
    o[6] = __funnelshift_r(a, b, b);
    o[7] = __funnelshift_lc(a, b, b & 63);
    o[8] = __funnelshift_rc(a, b, b & 63);
    o[9] = __umulhi(a, b);
    o[10] = __mulhi(static_cast<int>(a), static_cast<int>(b));
    o[11] = __sad(static_cast<int>(a), static_cast<int>(b), 3u);
    o[12] = __usad(a, b, 5u);
    o[13] = __uhadd(a, b);
    o[14] = __rhadd(static_cast<int>(a), static_cast<int>(b));
    o[15] = __vadd4(a, b);
    o[16] = __vavgu4(a, b);
    o[17] = __vmaxs2(a, b);
    o[18] = __vcmpgtu4(a, b);
    o[19] = __dp4a(static_cast<int>(a), static_cast<int>(b), 9);
    o[20] = __dp4a(a, b, 9u);
    o[21] = __dp2a_lo(static_cast<int>(a), static_cast<int>(b), -4);
    o[22] = __mul24(static_cast<int>(a), static_cast<int>(b));
    o[23] = __viaddmax_s32(static_cast<int>(a), static_cast<int>(b), 12) ^ __vimin3_u32(a, b, 77u);
    o[24] = __vabsdiffu4(a, b);
    o[25] = __vsadu4(a, b);
    o[26] = __vsadu2(a, b);
    o[27] = __vaddss4(a, b) ^ __vsubus2(a, b) ^ __vsetges4(a, b);
}

// -- constants, globals, unions ---------------------------------------------------------------------------------------
__constant__ float weights[5] = {0.5f, -1.25f, 3.0f, 1e-3f, -0.0f};
__constant__ int64_t powers[4] = {1, -10, 100, -1000};
__constant__ char word[8] = "granite";
__device__ int counter = 41;
__device__ unsigned long long totals[3] = {5, 6, 7};
__device__ const int primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
__device__ int cells[4][3] = {{1, 2, 3}, {4}, {}, {10, 11, 12}};
__device__ const int *const middle = primes + 3;
__device__ int *corner = &cells[3][1];
struct Node { const char *name; const Node *next; float value; };
__device__ const char first_name[] = "flint", second_name[] = "chert";
__device__ Node second = {second_name, nullptr, 2.5f};
__device__ Node first = {first_name + 1, &second, -1.5f};

extern "C" __global__ void tables(int *out, double *floats) {
    int i = threadIdx.x, block = blockDim.x;
    out[i] = primes[i % 8] * 1000 + word[i % 8];
    out[block + i] = cells[i % 4][i % 3] + *corner * 100;
    out[2 * block + i] = middle[i % 4] + static_cast<int>(powers[i % 4]);
    const Node *node = &first;
    for (int k = 0; k < i % 2; k++) node = node->next;
    out[3 * block + i] = node->name[i % 4] + (node->next == nullptr);
    floats[i] = weights[i % 5] + static_cast<double>(node->value);
    atomicAdd(&counter, 1);
    atomicAdd(&totals[i % 3], 1ull << 33);
    if (i == 0) corner = &cells[0][2];
    __syncthreads();
    if (i == 0) cells[2][2] = counter;
}

extern "C" __global__ void read_globals(unsigned long long *out) {
    out[0] = counter;
    for (int i = 0; i < 3; i++) out[1 + i] = totals[i];
    out[4] = *corner;
    out[5] = cells[2][2];
}

union Bits {
    double d;
    uint64_t q;
    uint32_t w[2];
    uint8_t b[8];
    struct { uint32_t low : 20, middle : 7; int high : 5; uint32_t rest; } fields;
};

extern "C" __global__ void unions(const double *in, uint64_t *out) {
    int i = threadIdx.x;
    Bits bits;
    bits.d = in[i];
    uint64_t found = bits.fields.low ^ static_cast<uint64_t>(static_cast<int64_t>(bits.fields.high)) << 20 ^ bits.fields.middle << 3;
    bits.b[i % 8] += 1;
    bits.fields.middle = i;
    uint32_t swap = bits.w[0];
    bits.w[0] = bits.w[1];
    bits.w[1] = swap;
    out[2 * i] = bits.q;
    out[2 * i + 1] = found ^ __double_as_longlong(in[i]) ^ __float_as_uint(__int_as_float(i)) ^ static_cast<uint64_t>(__double2hiint(in[i]));
}

// -- loads and stores of every width, volatile ------------------------------------------------------------------------
template <typename T>
__device__ void mirror(const T *in, T *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[n - 1 - i] = in[i];
}
extern "C" __global__ void vectors(const uint8_t *in, uint8_t *out, int bytes) {
    mirror(reinterpret_cast<const uchar4 *>(in), reinterpret_cast<uchar4 *>(out), bytes / 4);
    out += bytes;
    mirror(reinterpret_cast<const short2 *>(in), reinterpret_cast<short2 *>(out), bytes / 4);
    out += bytes;
    mirror(reinterpret_cast<const ushort4 *>(in), reinterpret_cast<ushort4 *>(out), bytes / 8);
    out += bytes;
    mirror(reinterpret_cast<const float2 *>(in), reinterpret_cast<float2 *>(out), bytes / 8);
    out += bytes;
    mirror(reinterpret_cast<const int4 *>(in), reinterpret_cast<int4 *>(out), bytes / 16);
    out += bytes;
    mirror(reinterpret_cast<const double2 *>(in), reinterpret_cast<double2 *>(out), bytes / 16);
    out += bytes;
    mirror(reinterpret_cast<const char3 *>(in), reinterpret_cast<char3 *>(out), bytes / 3);
    out += bytes;
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x)
        __stcs(reinterpret_cast<uint32_t *>(out) + i, __ldg(reinterpret_cast<const uint32_t *>(in) + i) ^ __ldcg(reinterpret_cast<const uint32_t *>(in)));
}

extern "C" __global__ void volatiles(volatile int *data, int n) {
    __shared__ volatile int row[64];
    int i = threadIdx.x;
    row[i] = data[i];
    __syncthreads();
    for (int k = 0; k < n; k++) {
        int left = row[(i + 63) % 64], mine = row[i];
        __syncthreads();
        row[i] = left ^ mine << 1;
        __syncthreads();
    }
    data[i] = row[i];
}
