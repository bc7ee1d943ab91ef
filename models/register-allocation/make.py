# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the four networks of this folder, which decide as function:heuristic does:

    models/register-allocation/make.py [FOLDER]

They have nothing but sums, products and comparisons, so that every engine decides alike.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from onnx_text import network

HERE = Path(__file__).resolve().parent
#: The agents' graphs. Each takes the choice with the highest score among those that are allowed.
GRAPHS = {
    # Urgent live ranges first, then those with the greatest spill weight.
    "node": """
node (bool[N] action_mask, float[N] spill_weights, float[N, 5] annotations) => (int64 node)
<int64 urgent = {0}, float huge = {1e30}, float never = {-3e38}> {
  is_urgent = Gather <axis = -1> (annotations, urgent)
  first = Mul (is_urgent, huge)
  score = Add (spill_weights, first)
  allowed = Where (action_mask, score, never)
  node = ArgMax <axis = 0, keepdims = 0> (allowed)
}""",
    # Splits (1) if that saves more executions than it costs to keep or evict.
    "task": """
task (bool[2] action_mask, float[9] node_properties) => (int64 task)
<int64 six = {6}, int64 seven = {7}, int64 eight = {8}, float zero = {0}, float minus = {-1},
 int64[1] front = {0}, float[1] colour = {0}, float never = {-3e38}> {
  executions = Gather <axis = -1> (node_properties, six)
  evicted = Gather <axis = -1> (node_properties, seven)
  saved = Gather <axis = -1> (node_properties, eight)
  nothing_to_evict = Less (evicted, zero)
  cheaper = Min (evicted, executions)
  least = Where (nothing_to_evict, executions, cheaper)
  gain = Add (saved, least)
  cost = Mul (executions, minus)
  worth = Add (gain, cost)
  split = Unsqueeze (worth, front)
  scores = Concat <axis = 0> (colour, split)
  allowed = Where (action_mask, scores, never)
  task = ArgMax <axis = 0, keepdims = 0> (allowed)
}""",
    # With a free register: weighs saved copies, first saves, costs and what others want. Without
    # one: the least loss, which for choice 0, the stack, is the cost of spilling.
    "colour": """
colour (bool[33] action_mask, float[5] node_properties, float[33, 5] registers) => (int64 colour)
<int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 three = {3}, int64 four = {4},
 float copy = {100}, float saves = {-10}, float minus = {-1}, float wanted = {-20},
 float nothing = {0}, float never = {-3e38}> {
  copies = Gather <axis = -1> (registers, zero)
  first_saves = Gather <axis = -1> (registers, one)
  costs = Gather <axis = -1> (registers, two)
  others = Gather <axis = -1> (registers, three)
  copy_term = Mul (copies, copy)
  saves_term = Mul (first_saves, saves)
  cost_term = Mul (costs, minus)
  others_term = Mul (others, wanted)
  sum_of_two = Add (copy_term, saves_term)
  sum_of_three = Add (sum_of_two, cost_term)
  sum_of_four = Add (sum_of_three, others_term)
  kept = Add (sum_of_four, not_the_stack)
  spill_cost = Gather <axis = -1> (node_properties, four)
  spent = Mul (only_the_stack, spill_cost)
  loss = Gather <axis = -1> (registers, four)
  taken = Mul (loss, minus)
  free_registers = Gather <axis = -1> (node_properties, zero)
  is_free = Greater (free_registers, nothing)
  otherwise = Add (spent, taken)
  score = Where (is_free, kept, otherwise)
  allowed = Where (action_mask, score, never)
  colour = ArgMax <axis = 0, keepdims = 0> (allowed)
}""",
    # The point with the greatest weight, less what its copies cost.
    "split": """
split (bool[P] action_mask, float[P, 3] points) => (int64 point)
<int64 zero = {0}, int64 two = {2}, float minus = {-1}, float never = {-3e38}> {
  weight = Gather <axis = -1> (points, zero)
  copies = Gather <axis = -1> (points, two)
  cost = Mul (copies, minus)
  score = Add (weight, cost)
  allowed = Where (action_mask, score, never)
  point = ArgMax <axis = 0, keepdims = 0> (allowed)
}""",
}
#: Constants of `colour`, whose choice 0 is the stack.
STACK = np.eye(1, 33, dtype=np.float32)[0]
COLOUR = {"not_the_stack": STACK * np.float32(-1e6), "only_the_stack": -STACK}


def main() -> int:
    folder = Path(sys.argv[1]) if sys.argv[1:] else HERE
    for agent, graph in GRAPHS.items():
        made = network(graph, COLOUR if agent == "colour" else None)
        onnx.save(made, folder / f"{agent}.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
