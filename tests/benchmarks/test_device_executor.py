"""What was recorded of the executor cuda: every byte and every stage is that of the CPU."""

from __future__ import annotations

import json

from benchmarks import device_executor, recording


def test_recorded_runs_agree_with_the_cpu() -> None:
    noted = json.loads((recording.RESULTS / "device_executor.json").read_text())
    assert set(noted["layers"]) == {"enc4", "dec0"}
    for row in noted["layers"].values():
        for ran in (*row["replays"].values(), row["graft_on_gpu_original_on_cpu"]):
            assert ran["bytes_compared"] > 200_000 and ran["bytes_differing"] == 0
        assert row["bisect"]["first"] is None and row["bisect"]["stages_compared"] > 20
        for cache in ("flushed", "warm"):
            assert set(row[cache]) == {"original", *device_executor.STYLES}
            assert all(t["bytes_differing"] == 0 and t["median_us"] > 0 for t in row[cache].values())
