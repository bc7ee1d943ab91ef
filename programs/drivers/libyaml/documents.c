/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
   Documents from standard input: documents tokens|copy|flow|tree. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static void check(int ok, const char *what, const yaml_parser_t *parser) {
  if (ok)
    return;
  fprintf(stderr, "documents: %s: %s\n", what,
          parser && parser->problem ? parser->problem : "error");
  exit(1);
}

/* Counts each kind of token. */
static void tokens(yaml_parser_t *parser) {
  int counts[32] = {0};
  yaml_token_t token;
  int last;
  do {
    check(yaml_parser_scan(parser, &token), "scan", parser);
    last = token.type;
    counts[last]++;
    yaml_token_delete(&token);
  } while (last != YAML_STREAM_END_TOKEN);
  for (int i = 0; i < 32; i++)
    if (counts[i])
      printf("%d: %d\n", i, counts[i]);
}

/* Writes the events of the parser, in a style of its own if `flow`. */
static void copy(yaml_parser_t *parser, int flow) {
  yaml_emitter_t emitter;
  yaml_event_t event;
  int last;
  check(yaml_emitter_initialize(&emitter), "emitter", NULL);
  yaml_emitter_set_output_file(&emitter, stdout);
  yaml_emitter_set_canonical(&emitter, flow);
  yaml_emitter_set_unicode(&emitter, !flow);
  yaml_emitter_set_width(&emitter, 60);
  do {
    check(yaml_parser_parse(parser, &event), "parse", parser);
    last = event.type;
    if (!flow && last == YAML_SCALAR_EVENT)
      event.data.scalar.style = YAML_ANY_SCALAR_STYLE;
    if (!flow && last == YAML_MAPPING_START_EVENT)
      event.data.mapping_start.style = YAML_BLOCK_MAPPING_STYLE;
    check(yaml_emitter_emit(&emitter, &event), "emit", NULL);
  } while (last != YAML_STREAM_END_EVENT);
  yaml_emitter_delete(&emitter);
}

/* Loads whole documents, looks at their nodes, and writes them again. */
static void tree(yaml_parser_t *parser) {
  yaml_emitter_t emitter;
  check(yaml_emitter_initialize(&emitter), "emitter", NULL);
  yaml_emitter_set_output_file(&emitter, stdout);
  check(yaml_emitter_open(&emitter), "open", NULL);
  for (;;) {
    yaml_document_t document;
    check(yaml_parser_load(parser, &document), "load", parser);
    if (!yaml_document_get_root_node(&document)) {
      yaml_document_delete(&document);
      break;
    }
    unsigned long scalars = 0, pairs = 0;
    yaml_node_t *node;
    for (int i = 1; (node = yaml_document_get_node(&document, i)); i++) {
      if (node->type == YAML_SCALAR_NODE)
        scalars += node->data.scalar.length;
      else if (node->type == YAML_MAPPING_NODE)
        pairs += node->data.mapping.pairs.top - node->data.mapping.pairs.start;
    }
    fprintf(stderr, "%lu %lu\n", scalars, pairs);
    check(yaml_emitter_dump(&emitter, &document), "dump", NULL);
  }
  check(yaml_emitter_close(&emitter), "close", NULL);
  yaml_emitter_delete(&emitter);
}

int main(int argc, char **argv) {
  yaml_parser_t parser;
  if (argc != 2)
    return 2;
  check(yaml_parser_initialize(&parser), "parser", NULL);
  yaml_parser_set_input_file(&parser, stdin);
  if (!strcmp(argv[1], "tokens"))
    tokens(&parser);
  else if (!strcmp(argv[1], "tree"))
    tree(&parser);
  else
    copy(&parser, !strcmp(argv[1], "flow"));
  yaml_parser_delete(&parser);
  return 0;
}
