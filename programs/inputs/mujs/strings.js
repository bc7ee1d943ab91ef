// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a text: counts its words, replaces with regular expressions, writes and reads JSON.
var text = read(scriptArgs[0]).slice(0, 20000);
var counts = {};
var words = text.split(/[\s]+/);
words.forEach(function (word) { counts[word] = (counts[word] || 0) + 1; });
var order = Object.keys(counts).sort(function (a, b) { return counts[b] - counts[a] || (a < b ? -1 : 1); });
order.slice(0, 10).forEach(function (word) { print(word, counts[word]); });
var changed = text.replace(/(\w+) (\w+)/g, "$2-$1").replace(/[aeiou]/g, function (c) { return c.toUpperCase(); });
var lines = changed.split("\n").filter(function (line) { return /E.*O/.test(line); });
var json = JSON.stringify({ lines: lines, counts: counts });
var again = JSON.parse(json);
var sum = 0;
for (var i = 0; i < 5000; ++i) sum = (sum * 31 + json.charCodeAt(i)) % 65521;
print(lines.length, json.length, again.lines[3].substring(0, 40), sum);
print(decodeURI(encodeURI(lines[0])).length, encodeURIComponent(lines.join("&")).length, lines[1].toLowerCase().indexOf("e"));
