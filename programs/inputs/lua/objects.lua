-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
-- Tables, closures, classes, coroutines and the collector.
local Node = {}
Node.__index = Node
function Node.new(key) return setmetatable({ key = key }, Node) end
function Node:insert(key)
  local side = key < self.key and "left" or "right"
  if self[side] then return self[side]:insert(key) end
  self[side] = Node.new(key)
end
function Node:walk()
  if self.left then self.left:walk() end
  coroutine.yield(self.key)
  if self.right then self.right:walk() end
end
function Node:depth()
  local l, r = self.left and self.left:depth() or 0, self.right and self.right:depth() or 0
  return 1 + (l > r and l or r)
end

local state = 7
local function random(limit)
  state = (state * 1103515245 + 12345) % 2147483648
  return state % limit
end

local root = Node.new(50000)
for _ = 1, 8000 do root:insert(random(100000)) end
local seen, last, sorted = 0, -1, true
for key in coroutine.wrap(function() root:walk() end) do
  seen, sorted, last = seen + 1, sorted and key >= last, key
end
print(seen, sorted, root:depth())

-- a queue of events with handlers that are closures
local Queue = setmetatable({}, { __call = function(class) return setmetatable({ items = {} }, { __index = class }) end })
function Queue:push(time, action)
  local items = self.items
  items[#items + 1] = { time = time, action = action }
  local i = #items
  while i > 1 and items[i // 2].time > items[i].time do
    items[i // 2], items[i] = items[i], items[i // 2]
    i = i // 2
  end
end
function Queue:pop()
  local items = self.items
  local first, last = items[1], table.remove(items)
  if #items == 0 then return first end
  items[1] = last
  local i = 1
  while true do
    local least = i
    for child = 2 * i, 2 * i + 1 do
      if items[child] and items[child].time < items[least].time then least = child end
    end
    if least == i then return first end
    items[i], items[least] = items[least], items[i]
    i = least
  end
end
local queue, log = Queue(), {}
for i = 1, 300 do
  local count = 0
  local function tick(time)
    count = count + 1
    log[(i + count) % 17 + 1] = (log[(i + count) % 17 + 1] or 0) + time
    if count < 15 then queue:push(time + random(1000) + 1, tick) end
  end
  queue:push(random(1000), tick)
end
while #queue.items > 0 do
  local event = queue:pop()
  event.action(event.time)
end
print(table.concat(log, " "))

local set = {}
for i = 1, 20000 do set[random(5000)] = i end
local total = 0
for key, value in pairs(set) do total = total + key * value end
print(total, pcall(error, "stop"))
