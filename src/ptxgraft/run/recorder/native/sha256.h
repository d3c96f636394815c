/* SHA-256 (FIPS 180-4) of a buffer. */

#pragma once

#include <stddef.h>

/* Write the digest of `bytes` bytes as 64 hexadecimal digits and a zero. */
void sha256_hex(const void *data, size_t bytes, char text[65]);
