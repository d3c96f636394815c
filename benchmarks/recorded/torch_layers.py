"""A PyTorch program for recording: a matrix product, a softmax and a layer norm. Prints a checksum of what came out."""

import hashlib

import torch

torch.manual_seed(1)
a, b = torch.randn(2, 64, 96, device="cuda", dtype=torch.float16)
weights = torch.softmax(a.float(), dim=-1)
normal = torch.nn.functional.layer_norm(weights, (96,), torch.full((96,), 1.5, device="cuda"), torch.ones(96, device="cuda"))
product = a @ b.T
total = hashlib.sha256()
for result in (weights, normal, product):
    total.update(result.cpu().numpy().tobytes())
print(total.hexdigest())
