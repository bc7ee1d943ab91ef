// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A steady evaluation allocates nothing and takes no lock. A program of its own, because it counts
// the allocations of the whole process.
#include "engine/native/test_models.h"
#include "testing/built.h"

#include <mlbridge/model.h>

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <pthread.h>

static thread_local size_t calls = 0;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void *__libc_malloc(size_t size);
extern "C" void *__libc_memalign(size_t alignment, size_t size);
extern "C" void *malloc(size_t size) {
  ++calls;
  return __libc_malloc(size);
}
extern "C" void *aligned_alloc(size_t alignment, size_t size) {
  ++calls;
  return __libc_memalign(alignment, size);
}
extern "C" int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t *);
  static const auto real = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++calls;
  return real(mutex);
}
constexpr bool CanCount = true;
#else
constexpr bool CanCount = false;
#endif

namespace mlbridge {

TEST(NativeSteadyState, AllocatesNothingAndTakesNoLock) {
  const native::ModelFile file(native::smallNetwork());
  Model model = Model::open(file.uri());
  ASSERT_TRUE(model.bind(Signature(*model.modelSignature())));
  Runner runner = model.newRunner();
  const auto once = [&] {
    return runner.set("x", {2.0F, -1.0F}).ok() &&
           runner.evaluateOr<float>([] { return -1.0F; }) == 6.0F;
  };
  ASSERT_TRUE(once()) << runner.status().toString();
  const size_t before = calls;
  bool succeeded = true;
  for (int i = 0; i < 1000; ++i)
    succeeded &= once();
  EXPECT_EQ(calls, before);
  EXPECT_TRUE(succeeded);
}

TEST(NativeSteadyState, LengthsThatWereThereBeforeAllocateNothing) {
  Model model =
      Model::open("native:" + mlbridge::testing::sourceFile("tests/golden/onnx/pool.onnx"));
  ASSERT_TRUE(model.bind(Signature(*model.modelSignature()))) << model.status().toString();
  Runner runner = model.newRunner();
  const std::vector<float> nodes(16, 1.0F);
  const auto once = [&](size_t rows) {
    return runner.set("nodes", Span<const float>(nodes.data(), 2 * rows)).ok() &&
           runner.evaluate().ok() && runner.output<float>("total")[0] == static_cast<float>(rows);
  };
  for (const size_t rows : {8, 3, 5, 8, 3, 5})
    ASSERT_TRUE(once(rows)) << runner.status().toString();
  const size_t before = calls;
  bool succeeded = true;
  for (int i = 0; i < 100; ++i)
    for (const size_t rows : {8, 3, 5})
      succeeded &= once(rows);
  EXPECT_TRUE(succeeded);
  // The caller's set() makes the shape, once or twice; the engine adds nothing.
  EXPECT_LE(calls - before, 600u);
}

TEST(NativeSteadyState, TheCounterCounts) {
  const size_t before = calls;
  auto number = std::make_unique<int>(1);
  EXPECT_NE(number, nullptr);
  EXPECT_EQ(calls > before, CanCount);
}

} // namespace mlbridge
