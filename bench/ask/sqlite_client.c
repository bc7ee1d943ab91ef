/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * A model asked for each row of a table: by the function of examples/sqlite, and by loops in C.
 *
 *   ask-sqlite-client EXTENSION URI ROWS ROUNDS
 *
 * Prints for each round the nanoseconds of "SELECT sum(mlbridge(URI, x, y)) FROM t", of a loop in C
 * over "SELECT x, y FROM t" that asks through the C interface, and of one over arrays. */
#include <mlbridge/c/mlbridge.h>

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct bench {
  sqlite3 *db;
  const char *uri;
  mlbridge_runner *runner;
  int rows;
  float (*values)[2];
} bench;

static void must(int fine, const char *why) {
  if (!fine) {
    fprintf(stderr, "ask-sqlite-client: %s\n", why);
    exit(1);
  }
}

static sqlite3_stmt *prepare(const bench *own, const char *query) {
  sqlite3_stmt *statement = NULL;
  must(sqlite3_prepare_v2(own->db, query, -1, &statement, NULL) == SQLITE_OK,
       sqlite3_errmsg(own->db));
  return statement;
}

static double ask(const bench *own, const float *values) {
  float answer = 0;
  must(mlbridge_set(own->runner, "x", values, 2) == MLBRIDGE_OK &&
           mlbridge_evaluate_float(own->runner, &answer) == MLBRIDGE_OK,
       mlbridge_runner_message(own->runner));
  return (double)answer;
}

static double by_function(const bench *own) {
  sqlite3_stmt *statement = prepare(own, "SELECT sum(mlbridge(?, x, y)) FROM t");
  sqlite3_bind_text(statement, 1, own->uri, -1, SQLITE_STATIC);
  must(sqlite3_step(statement) == SQLITE_ROW, sqlite3_errmsg(own->db));
  const double total = sqlite3_column_double(statement, 0);
  sqlite3_finalize(statement);
  return total;
}

static double by_loop(const bench *own) {
  sqlite3_stmt *statement = prepare(own, "SELECT x, y FROM t");
  double total = 0;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    const float values[2] = {(float)sqlite3_column_double(statement, 0),
                             (float)sqlite3_column_double(statement, 1)};
    total += ask(own, values);
  }
  sqlite3_finalize(statement);
  return total;
}

static double by_arrays(const bench *own) {
  double total = 0;
  for (int i = 0; i < own->rows; ++i)
    total += ask(own, own->values[i]);
  return total;
}

static double nanoseconds(double (*work)(const bench *), const bench *own, double expected) {
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  const double total = work(own);
  clock_gettime(CLOCK_MONOTONIC, &to);
  must(fabs(total - expected) <= 1e-9 * own->rows, "the sums of the answers differ");
  return (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
}

static void fill(bench *own) {
  sqlite3_exec(own->db, "CREATE TABLE t(x REAL, y REAL); BEGIN", NULL, NULL, NULL);
  sqlite3_stmt *insert = prepare(own, "INSERT INTO t VALUES (?, ?)");
  for (int i = 0; i < own->rows; ++i) {
    own->values[i][0] = (float)(i % 1021) / 1024;
    own->values[i][1] = (float)(i % 509) / 512;
    sqlite3_bind_double(insert, 1, (double)own->values[i][0]);
    sqlite3_bind_double(insert, 2, (double)own->values[i][1]);
    must(sqlite3_step(insert) == SQLITE_DONE && sqlite3_reset(insert) == SQLITE_OK,
         sqlite3_errmsg(own->db));
  }
  sqlite3_finalize(insert);
  sqlite3_exec(own->db, "COMMIT", NULL, NULL, NULL);
}

int main(int count, char **arguments) {
  must(count == 5, "usage: ask-sqlite-client EXTENSION URI ROWS ROUNDS");
  bench own = {NULL, arguments[2], NULL, (int)strtol(arguments[3], NULL, 10), NULL};
  own.values = calloc((size_t)own.rows, sizeof *own.values);
  own.runner = mlbridge_open(own.uri, NULL, NULL);
  must(sqlite3_open(":memory:", &own.db) == SQLITE_OK && own.values, "out of memory");
  sqlite3_db_config(own.db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
  must(sqlite3_load_extension(own.db, arguments[1], NULL, NULL) == SQLITE_OK,
       sqlite3_errmsg(own.db));
  fill(&own);
  double (*const works[])(const bench *) = {by_function, by_loop, by_arrays};
  const double expected = by_arrays(&own);
  for (int round = 0; round < (int)strtol(arguments[4], NULL, 10); ++round) {
    double took[3];
    for (int i = 0; i < 3; ++i) { /* each is the first in its turn */
      const int which = (round + i) % 3;
      took[which] = nanoseconds(works[which], &own, expected);
    }
    printf("%.0f %.0f %.0f\n", took[0], took[1], took[2]);
  }
  sqlite3_close(own.db);
  mlbridge_runner_destroy(own.runner);
  free(own.values);
  return 0;
}
