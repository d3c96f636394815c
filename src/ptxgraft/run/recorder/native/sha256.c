/* SHA-256, with the processor's own instructions where it has them: hashing is most of what recording a large allocation costs.

   Invariant: both ways give the digest of FIPS 180-4; the constants are computed from their definition there. */

#include "sha256.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && !defined(PLAIN_SHA256)
#define NATIVE_SHA256
#include <cpuid.h>
#include <immintrin.h>
#endif

static uint32_t K[64], START[8];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void (*blocks)(uint32_t *state, const unsigned char *data, size_t count);

static uint32_t turn(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void plain(uint32_t *h, const unsigned char *data, size_t count) {
    for (; count--; data += 64) {
        uint32_t w[64], s[8];
        for (int i = 0; i < 16; i++)
            w[i] = (uint32_t)data[4 * i] << 24 | data[4 * i + 1] << 16 | data[4 * i + 2] << 8 | data[4 * i + 3];
        for (int i = 16; i < 64; i++) {
            uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
        }
        memcpy(s, h, sizeof s);
        for (int i = 0; i < 64; i++) {
            uint32_t e = s[4], a = s[0];
            uint32_t one = s[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + K[i] + w[i];
            uint32_t two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
            memmove(s + 1, s, 7 * sizeof *s);
            s[4] += one;
            s[0] = one + two;
        }
        for (int i = 0; i < 8; i++) h[i] += s[i];
    }
}

#ifdef NATIVE_SHA256
/* The instructions take the state as (A, B, E, F) and (C, D, G, H), high lane first (Intel 64 manual, SHA256RNDS2). */
__attribute__((target("sha,sse4.1,ssse3"))) static void native(uint32_t *h, const unsigned char *data, size_t count) {
    const __m128i order = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i abef = _mm_set_epi32((int)h[0], (int)h[1], (int)h[4], (int)h[5]);
    __m128i cdgh = _mm_set_epi32((int)h[2], (int)h[3], (int)h[6], (int)h[7]);
    for (; count--; data += 64) {
        __m128i w[4], a = abef, c = cdgh;
        for (int i = 0; i < 4; i++) w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + 16 * i)), order);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i now = w[i & 3];
            __m128i sum = _mm_add_epi32(now, _mm_loadu_si128((const __m128i *)(K + 4 * i)));
            c = _mm_sha256rnds2_epu32(c, a, sum);
            a = _mm_sha256rnds2_epu32(a, c, _mm_shuffle_epi32(sum, 0x0e));
            if (i < 12) {
                __m128i next = _mm_sha256msg1_epu32(now, w[(i + 1) & 3]);
                next = _mm_add_epi32(next, _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4));
                w[i & 3] = _mm_sha256msg2_epu32(next, w[(i + 3) & 3]);
            }
        }
        abef = _mm_add_epi32(abef, a);
        cdgh = _mm_add_epi32(cdgh, c);
    }
    h[0] = (uint32_t)_mm_extract_epi32(abef, 3), h[1] = (uint32_t)_mm_extract_epi32(abef, 2);
    h[4] = (uint32_t)_mm_extract_epi32(abef, 1), h[5] = (uint32_t)_mm_extract_epi32(abef, 0);
    h[2] = (uint32_t)_mm_extract_epi32(cdgh, 3), h[3] = (uint32_t)_mm_extract_epi32(cdgh, 2);
    h[6] = (uint32_t)_mm_extract_epi32(cdgh, 1), h[7] = (uint32_t)_mm_extract_epi32(cdgh, 0);
}
#endif

/* The first 32 bits of the fraction of n^(1/power): the largest r with r^power <= n * 2^(32 * power). */
static uint32_t root_fraction(unsigned n, int power) {
    unsigned __int128 low = 0, high = (unsigned __int128)1 << 37;
    while (high - low > 1) {
        unsigned __int128 middle = (low + high) / 2, left = middle * middle;
        unsigned __int128 right = (unsigned __int128)n << 64;
        /* Cubes take up to 111 bits, n * 2^96 up to 105. */
        if (power == 3) left *= middle, right <<= 32;
        if (left <= right) low = middle;
        else high = middle;
    }
    return (uint32_t)low;
}

static void prepare(void) {
    for (unsigned n = 2, found = 0; found < 64; n++) {
        int prime = 1;
        for (unsigned d = 2; d * d <= n; d++) prime &= n % d != 0;
        if (!prime) continue;
        if (found < 8) START[found] = root_fraction(n, 2);
        K[found++] = root_fraction(n, 3);
    }
    blocks = plain;
#ifdef NATIVE_SHA256
    unsigned a, b, c, d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1) blocks = native;
#endif
}

void sha256_hex(const void *data, size_t bytes, char text[65]) {
    pthread_once(&once, prepare);
    uint32_t h[8];
    unsigned char tail[128] = {0};
    size_t rest = bytes % 64, padded = rest < 56 ? 64 : 128;
    memcpy(h, START, sizeof h);
    blocks(h, data, bytes / 64);
    memcpy(tail, (const unsigned char *)data + bytes - rest, rest);
    tail[rest] = 0x80;
    for (int i = 0; i < 8; i++) tail[padded - 1 - i] = (unsigned char)((uint64_t)bytes * 8 >> 8 * i);
    blocks(h, tail, padded / 64);
    for (int i = 0; i < 64; i++) text[i] = "0123456789abcdef"[h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    text[64] = 0;
}
