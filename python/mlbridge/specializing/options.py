# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Options of LLVM 22's optimizer and code generator that a search may set, and in which order.

Starts nothing: `mlbridge flags` uses it.
"""

from __future__ import annotations

#: The values that are tried, beside LLVM's own. An option that a target doesn't have is a link that
#: fails, which is left out.
OPTIONS: dict[str, tuple[str, ...]] = {
    "inline-threshold": ("50", "100", "400", "800", "1600"),
    "inline-enable-cost-benefit-analysis": ("false",),
    "hot-callsite-threshold": ("500", "1500", "6000", "12000"),
    "inlinecold-threshold": ("0", "20", "100", "225"),
    "unroll-threshold": ("0", "80", "600", "1200"),
    "unroll-runtime": ("false", "true"),
    "unroll-max-percent-threshold-boost": ("100", "800"),
    "force-vector-width": ("1", "2", "4", "8"),
    "force-vector-interleave": ("1", "2", "4"),
    "vectorize-slp": ("false",),
    "enable-dfa-jump-thread": ("true",),
    "enable-gvn-hoist": ("true",),
    "enable-gvn-sink": ("true",),
    "enable-loopinterchange": ("true",),
    "enable-loop-flatten": ("true",),
    "enable-ext-tsp-block-placement": ("false", "true"),
    "enable-split-machine-functions": ("true",),
    "align-all-functions": ("4", "5", "6"),
    "align-all-nofallthru-blocks": ("3", "4", "5"),
    "tail-dup-size": ("1", "4", "8"),
    "tail-dup-placement-threshold": ("1", "4", "8"),
    "x86-cmov-converter": ("false",),
    "jump-threading-threshold": ("2", "12", "24"),
    "two-entry-phi-node-folding-threshold": ("1", "8", "16"),
    "profile-summary-cutoff-hot": ("900000", "999000", "999900"),
    "licm-control-flow-hoisting": ("true",),
    "enable-pre": ("false",),
    "memop-max-annotations": ("8",),
}

Options = tuple[tuple[str, str], ...]

#: What is tried first: options that paid on discount, tre, expat and md4c
#: (experiments/speed_oracle.py). The best sets of one program cost time on the next.
FIRST: list[Options] = [
    (("enable-split-machine-functions", "true"),),
    (("profile-summary-cutoff-hot", "999900"),),
    (("tail-dup-size", "1"),),
    (("unroll-threshold", "1200"),),
    (("align-all-nofallthru-blocks", "4"),),
    (("inline-threshold", "800"),),
    (("jump-threading-threshold", "12"),),
    (("unroll-threshold", "80"),),
]


def read(found: object) -> Options:
    """Names and values as a decisions file has them. ValueError if one isn't among OPTIONS."""
    if not isinstance(found, (list, tuple)):
        raise ValueError(f"expected pairs of an option and its value, got {found!r:.80}")
    for one in found:
        if not (isinstance(one, (list, tuple)) and len(one) == 2):
            raise ValueError(f"expected an option and its value, got {one!r:.80}")
        name, value = one
        if value not in OPTIONS.get(name, ()):
            raise ValueError(f"{name!r:.80} = {value!r:.80} is no option that a search sets")
    return tuple((str(name), str(value)) for name, value in found)
