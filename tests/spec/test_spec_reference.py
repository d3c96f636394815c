"""The spec of the reference layers against what their README says of them."""

from __future__ import annotations

import pytest

from ptxgraft import data
from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.spec import LayerSpec, layer_spec
from ptxgraft.text import Document

RUNS = {
    "enc4": [32] * 5 + [16] * 12 + [8] * 8 + [16] * 4 + [32] * 16 + [16] * 4,
    "dec0": [16, 8, 32, 32, 4] * 4,
}
ENC4_PARTS = [
    ("stem bias", 0, 64), ("stem centre", 64, 2048), ("stem left", 2112, 2048), ("stem right", 4160, 2048), ("stem up", 6208, 2048),
    ("stem down", 8256, 2048), ("query bias", 10304, 64), ("query", 10368, 4096),
]  # fmt: skip


@pytest.fixture(scope="module", params=["enc4", "dec0"])
def spec(request: pytest.FixtureRequest) -> LayerSpec:
    layer = request.param
    return layer_spec(Flow(bind(Document.parse(data.ptx(layer), layer), layer)))


def test_phases(spec: LayerSpec):
    assert [p.mma for p in spec.phases] == RUNS[spec.entry]
    assert all(p.tiles is not None for p in spec.phases)
    assert all(p.types == {"d": "f16", "a": "e4m3", "b": "e4m3", "c": "f16"} and p.shape == "m16n8k32" for p in spec.phases)
    assert spec.region is not None and spec.region.mma == sum(RUNS[spec.entry])


def test_parameters(spec: LayerSpec):
    assert spec.weight_param == 40
    uses = {p.offset: p.use for p in spec.params}
    if spec.entry == "enc4":
        assert uses == {
            0: "texture",
            8: "surface",
            16: "surface",
            24: "value",
            28: "value",
            32: "value",
            36: "value",
            40: "weights",
            48: "value",
            52: "value",
        }
        assert [(a.name, a.size) for a in spec.shared] == [("_ZZ4enc4E7staging", 24576)]
    else:
        assert uses == {0: "texture+0, texture+8, surface+16, surface+24, weights+40"}


def covered(ranges: list[tuple[int, int]], start: int, size: int) -> bool:
    return any(a <= start and start + size <= b for a, b in ranges)


def test_the_weight_map_covers_the_image(spec: LayerSpec):
    image = len(data.weights(spec.entry))
    spans = sorted(r for p in spec.phases for r in (*p.weight_ranges, *p.computed_ranges))
    at = 0
    for start, end in spans:
        assert start <= at or start - at < 64, f"bytes {at} to {start} are in no phase"
        at = max(at, end)
    assert at <= image
    assert image - at < 4096  # the last bytes may be padding, never a whole product


def test_the_stems_products_are_where_the_readme_says():
    spec = layer_spec(Flow(bind(Document.parse(data.ptx("enc4"), "enc4"), "enc4")))
    for index, (name, start, size) in enumerate(ENC4_PARTS[1:6]):
        for warp in range(4):
            assert covered(spec.phases[index].weight_ranges, 84544 * warp + start, size), name
    assert all(f.provenance.kind == "weights" for p in spec.phases[:5] for f in p.b)
    assert {f.provenance.kind for f in spec.phases[0].a} == {"shared"}
    assert {f.provenance.kind for f in spec.phases[1].c} == {"chain"}


def test_idioms_of_the_reference_layers(spec: LayerSpec):
    text = "\n".join(i for p in spec.phases for i in p.epilogue.idioms)
    for idiom in ("row RMS norm", "requantisation to e4m3", "shuffle reductions", "surface epilogue"):
        assert idiom in text, idiom
    if spec.entry == "enc4":
        assert "softmax with cubic exponential" in text and "staging to shared memory" in text
