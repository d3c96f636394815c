"""A JAX program for recording: a fused elementwise function and a normalisation. Prints a checksum of what came out."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def layer(x, gain):
    y = jnp.sin(x) * gain + x
    return (y - y.mean(axis=-1, keepdims=True)) / jnp.sqrt(y.var(axis=-1, keepdims=True) + 1e-5)


x = jnp.asarray(np.random.default_rng(4).standard_normal((16, 64), dtype=np.float32))
print(hashlib.sha256(np.asarray(layer(x, jnp.full(64, 1.25, jnp.float32))).tobytes()).hexdigest())
