# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Clusters whose nodes are killed, cut off, slow or different. Nightly: needs build/venv-train."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from raylets import isolated, why_not

pytestmark = [pytest.mark.nightly, pytest.mark.training, pytest.mark.timeout(1800)]
CAMPAIGN = Path(__file__).parent / "campaign.py"


@pytest.mark.parametrize(
    "scenario",
    [
        "candidates_with_losses",
        "a_cluster_that_ends",
        "functions_that_fail",
        "corpus_and_validation",
        "a_training_and_a_search",
        "a_specialization",
    ],
)
def test_nodes_with_addresses_of_their_own(scenario: str, tmp_path: Path) -> None:
    if why := why_not():
        pytest.skip(why)
    folder = Path("/tmp") / f"mlb-{os.getpid()}"  # paths of Ray's sockets must be short
    folder.mkdir()
    try:
        command = [*isolated(), sys.executable, str(CAMPAIGN), scenario, str(folder)]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=1700, check=False, cwd=tmp_path
        )
        print(ran.stdout)
        logs = [f"{log.name}: {log.read_text()[-500:]}" for log in folder.glob("n*.log")]
        assert ran.returncode == 0, "\n".join([ran.stdout, ran.stderr[-5000:], *logs])
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=False)
