// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A coroutine inside a coroutine.
#include <coroutine>
#include <cstdio>
#include <exception>

struct Generator {
  struct promise_type {
    int value = 0;
    Generator get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(int v) {
      value = v;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
  ~Generator() { handle.destroy(); }
  bool next() {
    handle.resume();
    return !handle.done();
  }
  int value() const { return handle.promise().value; }
};

Generator range(int first, int last) {
  for (int i = first; i < last; ++i)
    co_yield i * i;
}

Generator more(int n) {
  Generator inner = range(0, n);
  while (inner.next())
    co_yield inner.value() + 1;
}

int main() {
  Generator outer = more(6);
  while (outer.next())
    std::printf("%d ", outer.value());
  std::puts("");
  return 0;
}
