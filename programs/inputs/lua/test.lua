-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
-- Works through Lua's parts and prints what can be compared between two builds.
local seed = tonumber(arg[1]) or 1
local state = seed
local function random(limit)
  state = (state * 1103515245 + 12345) % 2147483648
  return state % limit
end

-- tables, sort, closures
local items = {}
for i = 1, 400 do items[i] = { key = random(1000), name = ("item%03d"):format(i) } end
table.sort(items, function(a, b)
  if a.key ~= b.key then return a.key < b.key end
  return a.name < b.name
end)
for i = 1, 400, 37 do print(items[i].key, items[i].name) end
print(table.concat(table.pack(table.unpack({ 1, 2, 3, "four" })), ";"), #items)

-- strings, patterns, formats, utf8
local text = string.rep("The quick brown fox, 42 jumps; ", 5)
print((text:gsub("%a+", function(word) return #word > 4 and word:upper() or nil end)))
for word, number in text:gmatch("(%a+), (%d+)") do io.write(word, "=", number, " ") end
print(string.format("%5.3f|%-8s|%08x|%q|%g|%a", math.pi, "left", 48879, "a\n\"b\"\0c", 1e100, 0.5))
for position, code in utf8.codes("aé€😀") do io.write(position, ":", code, " ") end
print(utf8.len("aé€😀"), utf8.char(72, 228, 8364))
print(string.pack(">i4 z s2", -7, "zero", "len"):byte(1, -1))
print(("x"):rep(3, ","), ("hello"):find("l+"), ("key = value"):match("^(%w+)%s*=%s*(%w+)$"))

-- integers and floats
print(7 // 2, -7 // 2, 7 % -3, 7.5 // 2, 1 << 62, ~0, 3 | 4 ~ 1, math.maxinteger + 1 == math.mininteger)
print(10 / 3, 2 ^ 0.5, 1e15, 1e16, -0.0, 1 / 0, math.type(3), math.type(3.0), math.tointeger(3.0))
for _, x in ipairs { 0.1, 0.2, 0.3, 123456.789, 1e-7 } do io.write(tostring(x), " ") end
print(math.floor(-3.5), math.ceil(-3.5), math.fmod(7, -3), math.ult(1, -1))

-- metatables, inheritance, goto, coroutines, errors
local Vector = {}
Vector.__index = Vector
Vector.__add = function(a, b) return setmetatable({ a[1] + b[1], a[2] + b[2] }, Vector) end
Vector.__eq = function(a, b) return a[1] == b[1] and a[2] == b[2] end
Vector.__tostring = function(v) return "(" .. v[1] .. ", " .. v[2] .. ")" end
Vector.__close = function(v) print("closed " .. tostring(v)) end
do
  local sum <close> = setmetatable({ 1, 2 }, Vector) + setmetatable({ 3, 4 }, Vector)
  print(tostring(sum), sum == setmetatable({ 4, 6 }, Vector))
end
local function permutations(list, n)
  if n == 0 then coroutine.yield(table.concat(list)) return end
  for i = 1, n do
    list[n], list[i] = list[i], list[n]
    permutations(list, n - 1)
    list[n], list[i] = list[i], list[n]
  end
end
for p in coroutine.wrap(function() permutations({ "a", "b", "c", "d" }, 4) end) do io.write(p, " ") end
print()
print(pcall(function() local t = nil; return t.field end))
print(pcall(error, { code = 3 }) == false, select(2, xpcall(function() error("deep", 0) end, function(m) return m .. "!" end)))
print(load("return 1 +")) -- a syntax error
print(load("local a, b = ...; return a * b")(6, 7))
for i = 1, 3 do
  for j = 1, 3 do
    if j == 2 then goto continue end
    io.write(i, j, " ")
    ::continue::
  end
end
print()

-- a sieve, the queens, garbage
local sieve, primes = {}, 0
for i = 2, 20000 do
  if not sieve[i] then
    primes = primes + 1
    for j = i * i, 20000, i do sieve[j] = true end
  end
end
local function queens(n, row, columns, left, right)
  if row == n then return 1 end
  local found = 0
  for column = 0, n - 1 do
    local l, r = row + column, row - column + n
    if not (columns[column] or left[l] or right[r]) then
      columns[column], left[l], right[r] = true, true, true
      found = found + queens(n, row + 1, columns, left, right)
      columns[column], left[l], right[r] = nil, nil, nil
    end
  end
  return found
end
print(primes, queens(7, 0, {}, {}, {}))
local weak = setmetatable({}, { __mode = "k" })
for _ = 1, 1000 do weak[{}] = string.rep("x", 100) end
collectgarbage()
print(next(weak))
print(os.time { year = 2020, month = 2, day = 29, hour = 12 }, os.date("!%Y-%m-%d %H:%M:%S", 86400 * 365))
