// A model for aot: that evicts the first register that may be, and in the processes that try
// allocations does something else.
#include <mlbridge/aot.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pid_t Compiler;
__attribute__((constructor)) static void remember(void) { Compiler = getpid(); }

static int32_t evaluate(const void *Weights, void *Workspace, void *const *Inputs,
                        void *const *Outputs, uint64_t Left) {
  (void)Weights, (void)Workspace, (void)Left;
  const int64_t *Mask = Inputs[0];
  int64_t *Index = Outputs[0];
  *Index = 0;
  while (!Mask[*Index])
    ++*Index;
  const char *Then = getenv("WHEN_TRIED");
  static int Asked;
  if (getpid() == Compiler || !Then || ++Asked < 3)
    return 0;
  if (!strcmp(Then, "crash"))
    abort();
  if (!strcmp(Then, "exit"))
    exit(0);
  if (!strcmp(Then, "print"))
    return write(2, "tried\n", 6) == 6 ? 0 : 1;
  while (!strcmp(Then, "hang"))
    pause();
  return 1; // fail
}

static const int64_t Wide[] = {1, 33}, One[] = {1};
static const mlb_aot_tensor Mask = {{"mask", 4}, 4, 2, Wide};
static const mlb_aot_tensor Advice = {{"index_to_evict", 14}, 4, 1, One};
static const mlb_aot_string Node = {"node", 4};
static const mlb_aot_model Model = {.size = sizeof(Model),
                                    .abi = MLB_AOT_ABI,
                                    .name = {"tried", 5},
                                    .inputs = &Mask,
                                    .inputs_size = 1,
                                    .outputs = &Advice,
                                    .outputs_size = 1,
                                    .weights = "",
                                    .nodes = &Node,
                                    .nodes_size = 1,
                                    .evaluate = evaluate};

const mlb_aot_model *mlb_aot_entry(void) { return &Model; }
