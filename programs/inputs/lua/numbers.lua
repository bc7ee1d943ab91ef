-- SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
-- Floating point and integer loops: planets, a matrix, a fractal, hashes.
local bodies = {}
for i = 1, 5 do
  bodies[i] = { x = i * 1.5, y = i % 3 - 1.0, z = 0.1 * i, vx = 0.0, vy = 0.3 / i, vz = 0.01, mass = 1 / i }
end
for _ = 1, 4000 do
  for i = 1, #bodies do
    local a = bodies[i]
    for j = i + 1, #bodies do
      local b = bodies[j]
      local dx, dy, dz = a.x - b.x, a.y - b.y, a.z - b.z
      local d2 = dx * dx + dy * dy + dz * dz + 0.01
      local pull = 0.001 / (d2 * math.sqrt(d2))
      a.vx, a.vy, a.vz = a.vx - dx * b.mass * pull, a.vy - dy * b.mass * pull, a.vz - dz * b.mass * pull
      b.vx, b.vy, b.vz = b.vx + dx * a.mass * pull, b.vy + dy * a.mass * pull, b.vz + dz * a.mass * pull
    end
  end
  for _, b in ipairs(bodies) do b.x, b.y, b.z = b.x + 0.001 * b.vx, b.y + 0.001 * b.vy, b.z + 0.001 * b.vz end
end
print(("%.9f %.9f"):format(bodies[1].x, bodies[5].y))

local n, a, b = 60, {}, {}
for i = 1, n do
  a[i], b[i] = {}, {}
  for j = 1, n do a[i][j], b[i][j] = (i * j) % 7 + 0.5, (i + j) % 5 - 1.0 end
end
local trace = 0.0
for i = 1, n do
  for j = 1, n do
    local sum = 0.0
    for k = 1, n do sum = sum + a[i][k] * b[k][j] end
    if i == j then trace = trace + sum end
  end
end
print(trace)

local inside = 0
for row = 0, 59 do
  for column = 0, 59 do
    local cr, ci, zr, zi, steps = column / 20 - 2, row / 20 - 1.5, 0.0, 0.0, 0
    while steps < 50 and zr * zr + zi * zi < 4 do
      zr, zi, steps = zr * zr - zi * zi + cr, 2 * zr * zi + ci, steps + 1
    end
    inside = inside + steps
  end
end
print(inside)

local hash, collatz = 2166136261, 0
for i = 1, 60000 do hash = ((hash ~ (i & 255)) * 16777619) & 0xffffffff end
for i = 1, 1500 do
  local v = i
  while v ~= 1 do
    v = v % 2 == 0 and v // 2 or 3 * v + 1
    collatz = collatz + 1
  end
end
print(hash, collatz)
