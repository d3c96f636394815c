"""A Triton program for recording: flash attention and a layer norm, kernels of the tests. Prints a checksum of what came out."""

import hashlib
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "kernels"))
import triton_sources

torch.manual_seed(2)
q, k, v = torch.randn(3, 2, 64, 32, device="cuda", dtype=torch.float16)
out = torch.zeros_like(q)
triton_sources.attention[(2, 2)](q, k, v, out, 64, 32**-0.5, ROWS=32, KEYS=32, HEAD=32, CAUSAL=True, STAGES=2)
x, gain, bias = torch.randn(8, 100, device="cuda"), torch.randn(100, device="cuda"), torch.randn(100, device="cuda")
normal, mean = torch.zeros_like(x), torch.zeros(8, device="cuda")
triton_sources.layer_norm[(8,)](x, gain, bias, normal, mean, 100, 1e-5, BLOCK=128)
total = hashlib.sha256()
for result in (out, normal, mean):
    total.update(result.cpu().numpy().tobytes())
print(total.hexdigest())
