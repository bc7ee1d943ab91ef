// More floating-point values live in a loop than there are registers.
int printf(const char *format, ...);

static double mix(const double *p, int count) {
  double a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8, j = 9;
  double k = 10, l = 11, m = 12, n = 13, o = 14, q = 15, r = 16, s = 17;
  for (int x = 0; x < count; ++x) {
    a += p[x] * b, b += a * c, c += b * d, d += c * e, e += d * f, f += e * g;
    g += f * h, h += g * i, i += h * j, j += i * k, k += j * l, l += k * m;
    m += l * n, n += m * o, o += n * q, q += o * r, r += q * s, s += r * a;
    if (s > 1e9)
      a /= s, b /= s, c /= s, d /= s, e /= s, f /= s, g /= s, h /= s, i /= s, s = 1;
  }
  return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + q + r + s;
}

int main(void) {
  double values[40];
  for (int i = 0; i < 40; ++i)
    values[i] = i * 0.125;
  for (int count = 1; count < 40; count += 13)
    printf("%a\n", mix(values, count));
}
