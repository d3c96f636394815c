"""What the benchmark of the warp executor compares computes the same; its texts are legal PTX. No timing is asserted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks import bench_warp, plot, synthetic, warp_c, warp_growth, warp_kernels, warp_rates
from ptxgraft.graft import assemble, find_ptxas
from ptxgraft.isa import bind
from ptxgraft.run import Launch, execute
from ptxgraft.text import Document

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas")
needs_cc = pytest.mark.skipif(warp_c.find_cc() is None, reason="there is no C compiler")

SMALL = {
    "saxpy 2^20": lambda: warp_kernels.saxpy(1000),
    "matmul 256^3": lambda: warp_kernels.matmul(32),
    "histogram, shared": lambda: warp_kernels.histogram(True, 1 << 15),
    "histogram, global": lambda: warp_kernels.histogram(False, 1 << 15),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_launch_computes_what_numpy_computes_on_both_engines(name: str) -> None:
    for engine in ("warp", "numpy"):
        launch = SMALL[name]()
        run, result = bench_warp.BESIDE[name][1](launch)
        execute(launch, engine)
        run()
        bench_warp.agree(launch, result(), name)


@needs_cc
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", SMALL)
def test_a_launch_computes_what_c_computes(name: str, threads: int) -> None:
    launch = SMALL[name]()
    plains = [make(launch) for make in bench_warp.BESIDE[name][0].values()]
    execute(launch)
    with ThreadPoolExecutor(threads) as pool:
        for plain in plains:
            for _ in range(2):  # its memory is as before each time
                plain.before()
                plain.run(threads, pool)
                bench_warp.agree(launch, plain.result, name)


def test_other_results_do_not_pass() -> None:
    launch = warp_kernels.saxpy(100)
    execute(launch)
    other = launch.memory.allocations[-1].data.view(np.float32).copy()
    other[7] += 1
    with pytest.raises(AssertionError, match="computes something else"):
        bench_warp.agree(launch, other, "it")


@pytest.mark.parametrize("product", warp_rates.PRODUCTS, ids=lambda p: p.opcode.removeprefix("mma.sync.aligned."))
def test_products_run_alike_on_both_engines(product: warp_rates.Product) -> None:
    kinds = warp_rates.CLASSES[:2] if product.format == "s8" else warp_rates.CLASSES
    for kind in kinds:
        found = []
        for engine in ("warp", "numpy"):
            launch = warp_rates.products(product, kind, blocks=2, turns=3)
            execute(launch, engine)
            found.append(warp_kernels.contents(launch))
        assert found[0] == found[1] and any(found[0][2][512:])


def test_classes_of_operands_are_what_they_say() -> None:
    rng = np.random.default_rng(1)
    halves = {kind: warp_rates.operands("f16", kind, rng).view(np.float16).astype(float) for kind in warp_rates.CLASSES}
    assert 0.9 < halves["typical"].std() < 1.1 and np.isfinite(halves["wide"]).all() and halves["wide"].std() > 1000
    assert np.isnan(halves["special"]).any()
    bytes_ = {kind: warp_rates.operands("e4m3", kind, rng) for kind in warp_rates.CLASSES}
    nan = {kind: bool((codes & 0x7F == 0x7F).any()) for kind, codes in bytes_.items()}
    assert nan == {"typical": False, "wide": False, "special": True}


@needs_ptxas
def test_the_texts_assemble() -> None:
    texts = [warp_kernels.SAXPY, warp_kernels.MATMUL, *(warp_kernels.histogram_text(shared) for shared in (True, False))]
    texts += [warp_rates.product_text(product) for product in warp_rates.PRODUCTS]
    texts += [warp_rates.approximation_text(opcode) for opcode in warp_rates.APPROXIMATIONS]
    for text in texts:
        result = assemble((warp_kernels.HEAD + text).encode())
        assert result.ok, result.log


@pytest.mark.parametrize("name", warp_growth.TEXTS)
def test_a_text_has_about_so_many_statements(name: str) -> None:
    for wanted in (500, 3000):
        text = warp_growth.TEXTS[name](wanted)
        assert abs(len(bind(Document.parse(text), synthetic.ENTRY).instructions) - wanted) < 0.35 * wanted


def test_a_grid_s_growth_has_a_row_for_each_size() -> None:
    found = warp_growth.grid_growth("sm_90", blocks=(1, 2, 4), repeats=1)
    assert [row["blocks"] for row in found["rows"]] == [1, 2, 4] and set(found["exponents"]) == {"one thread", "all threads"}


@pytest.mark.parametrize("power", [1, 2])
def test_a_plot_is_drawn_and_says_the_exponent(power: int, tmp_path: Path) -> None:
    points = [(float(n), 1e-3 * n**power) for n in (10, 100, 5000)]
    assert plot.exponent(points) == pytest.approx(power)
    plot.draw(tmp_path / "growth.png", "title", "n", "s", {"line": points})
    with Image.open(tmp_path / "growth.png") as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 20) or ()}
    assert image.size == (plot.WIDTH, plot.HEIGHT) and (0x1F, 0x77, 0xB4) in colours


def test_an_aim_that_is_missed_is_said_to_be() -> None:
    beside = [{"launch": n, "threads": 1, "warp ms": 3.0, "of it the start": 1.0} for n in ("matmul 256^3", "saxpy 2^20")]
    tensor = [{"instruction": "x", "typical M/s": 5.0, "wide M/s": 1.5, "aim M/s": 2, "aim typical M/s": 4}]
    result = {
        "beside": beside,
        "rates": {"tensor": tensor, "approximations": [{"function": "f", "M/s": 301.0, "aim M/s": 300}]},
        "compile": {"rows": [{"text": "tensor-core layer", "statements": 14_100, "cold s": 1.0}]},
        "executors": [{"launch": "saxpy 2^20", "numpy M/s": 5 * 43.0}],
    }
    found = [(row["wanted"], row["held"]) for row in bench_warp.aims(result)]
    assert found == [(5, True), (2.2, True), (1, False), (2, False), (4, True), (300, True), (2, True), (5, True)]


def test_launches_are_the_same_each_time() -> None:
    for make in (*SMALL.values(), lambda: warp_rates.approximations("ex2.approx.ftz.f32", 256, 1)):
        first, second = make(), make()
        assert isinstance(first, Launch) and first.args == second.args
        assert warp_kernels.contents(first) == warp_kernels.contents(second)
