// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops that are not distributed, one in each function.
int many(int);
extern int a[], b[], c[], d[];

void calls(int n) {
  for (int i = 1; i < n; ++i) {
    a[i] = a[i - 1] * 3;
    b[i] = many(c[i]);
  }
}

int leaves_early(int n) {
  for (int i = 1; i < n; ++i) {
    a[i] = a[i - 1] * 3;
    b[i] = c[i] * 5;
    if (d[i] == 7)
      return i;
  }
  return 0;
}

void has_conditions(int n) {
  for (int i = 1; i < n; ++i) {
    a[i] = a[i - 1] * 3;
    if (d[i] == 7)
      b[i] = c[i] * 5;
  }
}

void is_volatile(int n) {
  for (int i = 1; i < n; ++i) {
    a[i] = a[i - 1] * 3;
    *(volatile int *)&b[i] = c[i] * 5;
  }
}

void is_atomic(int n) {
  for (int i = 1; i < n; ++i) {
    a[i] = a[i - 1] * 3;
    __atomic_store_n(&b[i], c[i] * 5, __ATOMIC_RELAXED);
  }
}

void never_counted(int n) {
  do {
    a[n] = a[n + 1] * 3;
    b[n] = c[n] * 5;
    n = d[n];
  } while (n);
}

void not_wanted(int n) {
#pragma clang loop distribute(disable)
  for (int i = 1; i < n; ++i) {
    a[i] = a[i - 1] * 3;
    b[i] = c[i] * 5;
  }
}

static inline void inlined(int *to, int n) {
#pragma clang loop distribute(disable) vectorize(enable)
  for (int i = 1; i < n; ++i) {
    to[i] = to[i - 1] * 3;
    b[i] = c[i] * 5;
  }
}
void not_wanted_by_another(int n) { inlined(a, n); }

void depends_backward(int n) {
  for (int i = 4; i < n; ++i) {
    a[i] = b[i - 4] * 3;
    b[i] = a[i - 4] + c[i];
  }
}

void may_be_one_array(int *f, int *const *g, int n) {
  for (int i = 1; i < n; ++i) {
    f[i] = f[i - 1] * 3;
    *g[i] = c[i] * 5;
  }
}
