// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects, prototypes, closures, exceptions and the collector.
function Tree(key) { this.key = key; this.left = this.right = null; }
Tree.prototype.insert = function (key) {
  var side = key < this.key ? "left" : "right";
  if (this[side]) this[side].insert(key); else this[side] = new Tree(key);
};
Tree.prototype.walk = function (visit) {
  if (this.left) this.left.walk(visit);
  visit(this.key);
  if (this.right) this.right.walk(visit);
};
var state = 7;
function random(limit) { state = (state * 16807) % 2147483647; return state % limit; }
var root = new Tree(5000);
for (var i = 0; i < 2500; ++i) root.insert(random(10000));
var last = -1, seen = 0;
root.walk(function (key) { if (key < last) print("not sorted"); last = key; ++seen; });
print(seen, last);

function Account(owner) { this.owner = owner; this.history = []; }
Account.prototype = {
  pay: function (amount) {
    if (amount > 90) throw new RangeError("too much: " + amount);
    this.history.push({ amount: amount, at: this.history.length });
    return this;
  },
  get balance() { return this.history.reduce(function (sum, entry) { return sum + entry.amount; }, 0); }
};
var accounts = {}, refused = 0;
for (i = 0; i < 6000; ++i) {
  var name = "owner" + random(100);
  accounts[name] = accounts[name] || new Account(name);
  try { accounts[name].pay(random(100)); } catch (error) { if (error instanceof RangeError) ++refused; }
}
var rich = Object.keys(accounts).map(function (name) { return accounts[name]; });
rich.sort(function (a, b) { return b.balance - a.balance || (a.owner < b.owner ? -1 : 1); });
print(refused, rich.length, rich.slice(0, 3).map(function (a) { return a.owner + "=" + a.balance; }).join());
var adders = [];
for (i = 0; i < 3000; ++i) adders.push((function (n) { return function (x) { return x + n; }; })(i));
print(adders.reduce(function (value, add) { return add(value) % 10007; }, 0));
