// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches positions: think DEPTH POSITION ..., in Forsyth-Edwards notation. Takes the place of the
// engine's protocol.
#include <cstdio>
#include <cstdlib>

#include "attack.h"
#include "board.h"
#include "book.h"
#include "components.h"
#include "eval.h"
#include "fen.h"
#include "hash.h"
#include "material.h"
#include "move.h"
#include "move_do.h"
#include "move_gen.h"
#include "option.h"
#include "pawn.h"
#include "piece.h"
#include "protocol.h"
#include "pst.h"
#include "random.h"
#include "search.h"
#include "square.h"
#include "trans.h"
#include "value.h"
#include "vector.h"

int pipefd_a2e[2];
int pipefd_e2a[2];

namespace engine {

void loop() {}
void event() {}
void send(const char[], ...) {}
int book_move(board_t *) { return MoveNone; }
FILE *pipefd_a2e_0_stream = stdin;
FILE *pipefd_e2a_1_stream = stdout;

static void init() {
  option_init();
  square_init();
  piece_init();
  pawn_init_bit();
  value_init();
  vector_init();
  attack_init();
  move_do_init();
  random_init();
  hash_init();
  trans_init(Trans);
  option_set("Hash", "4");
  trans_alloc(Trans);
  pawn_init();
  pawn_alloc();
  material_init();
  material_alloc();
  pst_init();
  eval_init();
}

static void think(const char *position, int depth) {
  search_clear();
  board_from_fen(SearchInput->board, position);
  gen_legal_moves(SearchInput->list, SearchInput->board);
  SearchInput->infinite = false;
  SearchInput->depth_is_limited = true;
  SearchInput->depth_limit = depth;
  search();
  char move[16];
  move_to_string(SearchBest->move, move, sizeof move);
  std::printf("%s %d, %lld nodes\n", move, SearchBest->value,
              static_cast<long long>(SearchCurrent->node_nb));
}

} // namespace engine

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  engine::init();
  for (int n = 2; n < argc; ++n)
    engine::think(argv[n], std::atoi(argv[1]));
  return 0;
}
