// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Works on matrices that are made by rule: matrices solve|values|sparse SIZE.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter.h"
#include "matrix.h"
#include "matrix2.h"
#include "sparse.h"
#include "sparse2.h"

static double entry(int row, int column) {
  return (row * 31 + column * 17) % 29 / 29.0 + (row == column) * 12.0;
}

static MAT *made(int size) {
  MAT *matrix = m_get(size, size);
  for (int row = 0; row < size; ++row) {
    for (int column = 0; column < size; ++column)
      matrix->me[row][column] = entry(row, column);
  }
  return matrix;
}

static void solve(int size) {
  MAT *a = made(size), *lu = m_copy(a, MNULL), *qr = m_copy(a, MNULL), *spd = mmtr_mlt(a, a, MNULL),
      *inverse;
  VEC *b = v_ones(v_get(size)), *diagonal = v_get(size), *x;
  PERM *pivot = px_get(size);
  LUfactor(lu, pivot);
  x = LUsolve(lu, pivot, b, VNULL);
  printf("LU %.9f", v_norm2(x));
  QRfactor(qr, diagonal);
  x = QRsolve(qr, diagonal, b, x);
  printf(" QR %.9f", v_norm2(x));
  CHfactor(spd);
  x = CHsolve(spd, b, x);
  printf(" Cholesky %.9f", v_norm2(x));
  inverse = m_inverse(a, MNULL);
  printf(" inverse %.9f\n", m_norm_frob(inverse));
}

static void values(int size) {
  MAT *a = made(size), *symmetric = mmtr_mlt(a, a, MNULL), *q = m_get(size, size),
      *t = m_copy(a, MNULL);
  VEC *found = symmeig(symmetric, q, VNULL), *singular = svd(a, MNULL, MNULL, VNULL),
      *re = v_get(size), *im = v_get(size);
  printf("symmetric %.6f singular %.6f", v_norm2(found), v_norm1(singular));
  schur(t, q);
  schur_evals(t, re, im);
  printf(" general %.6f %.6f\n", v_sum(re), v_norm_inf(im));
}

static void sparse(int size) {
  int cells = size * size;
  SPMAT *a = sp_get(cells, cells, 5), *factor;
  VEC *b = v_ones(v_get(cells)), *x = v_get(cells);
  int steps = 0;
  for (int row = 0; row < cells; ++row) {
    sp_set_val(a, row, row, 4.01);
    if (row % size)
      sp_set_val(a, row, row - 1, -1.0);
    if (row % size < size - 1)
      sp_set_val(a, row, row + 1, -1.0);
    if (row >= size)
      sp_set_val(a, row, row - size, -1.0);
    if (row < cells - size)
      sp_set_val(a, row, row + size, -1.0);
  }
  factor = sp_copy(a);
  spICHfactor(factor);
  x = iter_spcg(a, factor, b, 1e-9, x, 1000, &steps);
  printf("conjugate gradients %.6f in %d steps", v_norm2(x), steps);
  spCHfactor(a);
  x = spCHsolve(a, b, x);
  printf(" Cholesky %.6f\n", v_norm2(x));
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  if (strcmp(argv[1], "solve") == 0)
    solve(atoi(argv[2]));
  if (strcmp(argv[1], "values") == 0)
    values(atoi(argv[2]));
  if (strcmp(argv[1], "sparse") == 0)
    sparse(atoi(argv[2]));
  return 0;
}
