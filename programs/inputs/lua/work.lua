-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
-- Keeps the interpreter busy: calls, tables, strings, sorting.
local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end
local state = 1
local function random()
  state = (state * 1103515245 + 12345) % 2147483648
  return state
end
local items = {}
for i = 1, 60000 do items[i] = random() end
table.sort(items)
local words = {}
for i = 1, 60000 do words[#words + 1] = ("%x"):format(items[i]):rep(2):upper():gsub("A", "b") end
local count = 0
for word in table.concat(words, " "):gmatch("%w+") do count = count + #word end
print(fib(27), items[1], items[#items], count)
