-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
-- Reads a text: counts its words, replaces, formats and packs.
local file = assert(io.open(arg[1]))
local text = file:read("a")
file:close()
local counts, order = {}, {}
for word in text:gmatch("%a+") do
  if not counts[word] then order[#order + 1] = word end
  counts[word] = (counts[word] or 0) + 1
end
table.sort(order, function(a, b)
  if counts[a] ~= counts[b] then return counts[a] > counts[b] end
  return a < b
end)
for i = 1, 10 do print(("%-12s %6d %8.4f%%"):format(order[i], counts[order[i]], 100 * counts[order[i]] / #order)) end
local swapped = text:gsub("(%a+) (%a+)", "%2 %1"):gsub("[aeiou]", string.upper)
local lines = {}
for line in swapped:gmatch("[^\n]*") do
  if line:find("EO?r") then lines[#lines + 1] = line:sub(1, 20):rep(2, "|"):reverse() end
end
local joined = table.concat(lines, "\n")
local sum = 0
for i = 1, #joined do sum = (sum * 31 + joined:byte(i)) % 4294967291 end
local packed = string.pack("<I4s4z", sum, joined, order[1])
print(#lines, #joined, sum, #packed, select(2, string.unpack("<I4s4", packed)) == joined)
