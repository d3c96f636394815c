"""A PyTorch program for recording: a matrix product, a softmax and a layer norm. Prints a checksum of what came out.

``torch_layers.py large`` takes the softmax of 24 MB as well, which an allocator of mapped segments spreads over several of them.
"""

import hashlib
import sys

import torch

torch.manual_seed(1)
a, b = torch.randn(2, 64, 96, device="cuda", dtype=torch.float16)
weights = torch.softmax(a.float(), dim=-1)
normal = torch.nn.functional.layer_norm(weights, (96,), torch.full((96,), 1.5, device="cuda"), torch.ones(96, device="cuda"))
product = a @ b.T
results = [weights, normal, product]
if "large" in sys.argv:
    results.append(torch.softmax(torch.ones(6144, 1024, device="cuda"), dim=-1))
total = hashlib.sha256()
for result in results:
    total.update(result.cpu().numpy().tobytes())
print(total.hexdigest())
