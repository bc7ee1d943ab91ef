// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a text: an index of its words, regular expressions, JSON there and back.
var lines = read(args[0]).slice(0, 50000).split("\n");
var index = {};
lines.forEach(function (line, number) {
  line.replace(/\b[a-z]{3,}\b/g, function (word) {
    (index[word] || (index[word] = [])).push(number);
    return word;
  });
});
var words = Object.keys(index).sort();
print(words.length, words.slice(0, 8).join(), index[words[5]].slice(0, 9));
var title = lines.map(function (line) {
  return line.split(" ").map(function (word) { return word.charAt(0).toUpperCase() + word.substring(1); }).join("_");
});
var text = JSON.stringify({ index: index, title: title });
var back = JSON.parse(text, function (key, value) { return typeof value === "string" ? value.toLowerCase() : value; });
print(text.length, back.title[7], JSON.stringify(back).length);
var palindromes = 0;
words.forEach(function (word) { if (word.split("").reverse().join("") === word) ++palindromes; });
print(palindromes, encodeURIComponent(title[3]), title.join("\n").match(/E\w*_O/g).length);
