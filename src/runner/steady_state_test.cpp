// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In the steady state an evaluation in process allocates nothing and takes no lock. A program of
// its own, because it replaces the allocator and pthread_mutex_lock for the whole process.
#include <mlbridge/function.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <new>
#include <pthread.h>

using namespace mlbridge;

// With sanitizers GCC inlines one of the operators below and not its counterpart, and complains.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

static thread_local size_t allocations = 0;
static thread_local size_t locks = 0;

static void *allocate(size_t size, size_t alignment) {
  ++allocations;
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  void *memory = std::aligned_alloc(alignment, rounded ? rounded : alignment);
  if (!memory)
    throw std::bad_alloc();
  return memory;
}

void *operator new(size_t size) { return allocate(size, 16); }
void *operator new[](size_t size) { return allocate(size, 16); }
void *operator new(size_t size, std::align_val_t a) { return allocate(size, size_t(a)); }
void *operator new[](size_t size, std::align_val_t a) { return allocate(size, size_t(a)); }
void operator delete(void *p) noexcept { std::free(p); }
void operator delete[](void *p) noexcept { std::free(p); }
void operator delete(void *p, size_t) noexcept { std::free(p); }
void operator delete[](void *p, size_t) noexcept { std::free(p); }
void operator delete(void *p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void *p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void *p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void *p, size_t, std::align_val_t) noexcept { std::free(p); }

#ifndef __SANITIZE_THREAD__ // which has its own in this place
extern "C" int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t *);
  static const auto real = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++locks;
  return real(mutex);
}
#endif

TEST(SteadyState, AllocatesNothingAndTakesNoLock) {
  const Signature signature{{TensorSpec::of<float>("features with quite a long name", {16}),
                             TensorSpec::of<float>("list", {-1}), TensorSpec::of<bool>("flag")},
                            {TensorSpec::of<int64_t>("action"), TensorSpec::of<float>("q", {4})}};
  Model model = fromFunction(signature, [](FunctionCall &call) {
    call.out<int64_t>("action")[0] = static_cast<int64_t>(call.in<float>("list")[0]);
    return Status();
  });
  ASSERT_TRUE(model.bind(signature));
  Runner runner = model.newRunner();
  const std::vector<float> features(16, 1.0f), list(8, 3.0f);
  const auto once = [&] {
    return runner.set("features with quite a long name", features).ok() &&
           runner.set("list", list).ok() && runner.set("flag", true).ok() &&
           runner.evaluateOr<int64_t>([] { return -1; }) == 3 &&
           runner.output<float>("q").size() == 4;
  };
  ASSERT_TRUE(once()) << runner.status().toString();
  const size_t allocationsBefore = allocations, locksBefore = locks;
  bool right = true;
  for (int i = 0; i < 1000; ++i)
    right &= once();
  EXPECT_EQ(allocations - allocationsBefore, 0u);
  EXPECT_EQ(locks - locksBefore, 0u);
  EXPECT_TRUE(right);
}

TEST(SteadyState, TheCountersCount) {
  const size_t allocationsBefore = allocations, locksBefore = locks;
  auto number = std::make_unique<int>(1);
  EXPECT_NE(number, nullptr);
  EXPECT_EQ(allocations - allocationsBefore, 1u);
#ifndef __SANITIZE_THREAD__
  std::mutex mutex;
  {
    const std::lock_guard<std::mutex> guard(mutex);
  }
  EXPECT_EQ(locks - locksBefore, 1u);
#else
  EXPECT_EQ(locks, locksBefore);
#endif
}
