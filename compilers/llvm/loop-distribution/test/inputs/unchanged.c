int longest;
char *lengths;
/* None of these loops can be divided. */
void code(int count, int k) {
  int left, j = k, heap[2] = {k, 1}, weight[516], parent[516];
  for (int i = 0; i < 516; ++i)
    weight[i] = k * i;
  for (;;) {
    left = 0;
    for (int i = 1; i <= count; i++) {
      parent[i] = -1;
      left++;
    }
    while (left > 1) {
      heap[1] = heap[left];
      left--;
      int at = k;
      while (weight[k] < weight[heap[at >> 1]]) {
        heap[at] = at >> 1;
        at >>= 1;
      }
    }
    int again = 0;
    for (int i = 1; i <= count; i++) {
      while (k >= 0)
        k = parent[k];
      lengths[i - 1] = j;
      if (j > longest)
        again = 1;
    }
    if (!again)
      break;
    for (int i = 1; i <= count; i++) {
      j = weight[i] >> 8;
      weight[i] = j << 8;
    }
  }
}
