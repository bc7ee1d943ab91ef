// Calls and loops with more integers than registers, a function for size, and inline assembly.
extern "C" int printf(const char *format, ...);

namespace {

constexpr int Count = 50;
using Input = unsigned[Count];

unsigned swap(unsigned value) {
#ifdef __x86_64__
  __asm__("bswap %0" : "+r"(value) : : "rbx", "r12", "r13", "cc");
#endif
  return value;
}

struct State {
  unsigned words[17];
  __attribute__((noinline)) unsigned round(const Input &input) {
    unsigned a = words[0], b = words[1], c = words[2], d = words[3], e = words[4], f = words[5];
    unsigned g = words[6], h = words[7], i = words[8], j = words[9], k = words[10], l = words[11];
    unsigned m = words[12], n = words[13], o = words[14], p = words[15], q = words[16];
    for (unsigned word : input) {
      a ^= word + b, b ^= a * c, c ^= b + d, d ^= c * e, e ^= d + f, f ^= swap(e) * g;
      g ^= f + h, h ^= g * i, i ^= h + j, j ^= i * k, k ^= j + l, l ^= k * m;
      m ^= l + n, n ^= m * o, o ^= n + p, p ^= o * q, q ^= p + a;
      if (q % 3 == 0)
        printf("%u %u\n", q, a);
    }
    return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q;
  }
};

__attribute__((minsize, noinline)) unsigned small(State &state, const Input &in) {
  unsigned a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5], g = in[6], h = in[7];
  unsigned i = in[8], j = in[9], k = in[10], l = in[11], m = in[12], n = in[13], o = in[14];
  for (unsigned &word : state.words)
    word += a * b + c * d + e * f + g * h + i * j + k * l + m * n + o, a ^= o, b += a, c ^= b,
        d += c, e ^= d, f += e, g ^= f, h += g, i ^= h, j += i, k ^= j, l += k, m ^= l, n += m,
        o ^= n;
  return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o;
}

} // namespace

int main() {
  Input input;
  for (unsigned i = 0; i < Count; ++i)
    input[i] = i * 2654435761u;
  State state{};
  printf("%u\n", small(state, input));
  printf("%u\n", state.round(input));
}
