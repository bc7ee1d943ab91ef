// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strings, arrays of them, and a dictionary.
uint state = 1;
uint random(uint limit) { state = state * 1664525 + 1013904223; return (state >> 8) % limit; }
void main() {
  array<string> syllables = {"ka", "to", "ri", "mu", "se", "no", "ha", "yo"};
  string text;
  for (uint i = 0; i < 6000; ++i) {
    string word;
    for (uint n = 1 + random(3); n > 0; --n) word += syllables[random(syllables.length())];
    text += word + " ";
  }
  array<string> words = text.split(" ");
  dictionary counts;
  for (uint i = 0; i < words.length(); ++i) {
    int64 count = 0;
    counts.get(words[i], count);
    counts.set(words[i], count + 1);
  }
  array<string> keys = counts.getKeys();
  keys.sortAsc();
  print("" + words.length() + " words, " + keys.length() + " kinds, first " + keys[1] + ", last " + keys[keys.length() - 1]);
  string shout;
  for (uint i = 0; i < 4000; ++i) {
    if (words[i].findFirst("ka") >= 0) shout += words[i].substr(0, 3) + formatInt(i, "0", 5);
  }
  int sum = 0;
  for (uint i = 0; i < shout.length(); ++i) sum = (sum * 31 + shout[i]) % 65521;
  print("" + shout.length() + " " + sum + " " + join(keys, "").length() + " " + parseInt("42"));
}
