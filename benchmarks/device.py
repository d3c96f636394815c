"""A GPU in this process, for benchmarks: the package's device on the default stream, with the images of a launch.

Invariant: a launch has the same effects here as in ``ptxgraft.run.execute``; everything made through a ``Device`` is freed by ``free``. A kernel that faults
costs the process its device, which is a ``DeviceError`` here.
"""

from __future__ import annotations

from numpy.typing import NDArray

from ptxgraft.errors import DeviceError, KernelFault
from ptxgraft.run import cuda
from ptxgraft.run.cuda import Buffer, Image, Images
from ptxgraft.run.images import Surface, Texture
from ptxgraft.run.launch import Launch

__all__ = ["Buffer", "Device", "Image", "execute", "relocated"]


class Device(cuda.Device):
    """``cuda.Device`` with textures and surfaces, on the stream that events of number 0 measure."""

    def __enter__(self) -> Device:
        super().__enter__()
        self.driver.cuStreamDestroy(self.stream)
        self.stream = 0
        self.images = Images(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
        for module in self.modules.values():
            self.driver.cuModuleUnload(module)
        self.driver.cuDevicePrimaryCtxRelease(self.device)

    def wait(self, entry: str) -> None:
        try:
            super().wait(entry)
        except KernelFault as fault:
            raise DeviceError(str(fault)) from None

    def texture(self, texture: Texture) -> Image:
        """A texture object over a copy of ``texture.array``."""
        return self.images.texture(texture)

    def surface(self, surface: Surface) -> Image:
        """A surface object over a copy of ``surface.array``."""
        return self.images.surface(surface)

    def texels(self, image: Image, like: NDArray) -> NDArray:
        """What a surface holds now, in the shape and dtype of ``like``."""
        return self.images.texels(image, Surface(like))

    def fill(self, image: Image, data: NDArray) -> None:
        """Copy texels into a surface."""
        self.images.fill(image, Surface(data))

    def free(self) -> None:
        self.images.free()
        super().free()


def execute(device: Device, launch: Launch, image: bytes | None = None) -> None:
    """Run a launch; its allocations, module variables and surfaces change in place. ``image``: its module as another assembler made it."""
    cuda.run_here(device, launch, image)


def relocated(launch: Launch, moved: dict[int, int], handles: dict[int, int]) -> bytes:
    """The argument block with its pointers and handles exchanged: ``moved`` maps the base of an allocation to its new one, ``handles`` old to new."""
    return cuda.exchanged(launch.args, [(a.base, a.size, moved[a.base]) for a in launch.memory.allocations], handles)
