// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nothing of a process that tries something is seen from outside, wherever its code goes.
#include "trials/race.h"
#include "trials/trial_process.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <linux/landlock.h>
#include <poll.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace mlbridge::trial {
namespace {

namespace fs = std::filesystem;

extern "C" int __cxa_atexit(void (*Do)(void *), void *Argument, void *Unit) noexcept;
extern "C" void __cxa_finalize(void *Unit);

class TrialProcess : public testing::Test {
protected:
  void SetUp() override {
    std::string Name = (fs::temp_directory_path() / "trial-XXXXXX").string();
    ASSERT_NE(mkdtemp(Name.data()), nullptr);
    Folder = Name;
    std::ofstream(Folder / "output") << "before";
  }
  void TearDown() override { fs::remove_all(Folder); }

  /// The status, from waitpid, of a trial that does this.
  static int tried(const std::function<void()> &Do, llvm::ArrayRef<int> Keep = {}) {
    Child Trial;
    if (Trial.fork()) {
      isolate(Keep);
      Do();
      _exit(0);
    }
    EXPECT_GT(Trial.Id, 0);
    return Trial.reap();
  }
  bool isAsBefore() const {
    std::ifstream In(Folder / "output");
    const std::string Text{std::istreambuf_iterator<char>(In), {}};
    const auto Entries = fs::directory_iterator(Folder);
    return Text == "before" && std::distance(begin(Entries), end(Entries)) == 1;
  }

  fs::path Folder;
};

TEST_F(TrialProcess, WritesNothingThatWasOpen) {
  const std::string Path = Folder / "output";
  const int File = open(Path.c_str(), O_WRONLY | O_APPEND);
  EXPECT_EQ(tried([&] { (void)!write(File, "after", 5); }), 0);
  close(File);
  EXPECT_TRUE(isAsBefore());
}

TEST_F(TrialProcess, WritesWhatIsKeptOnlyByWriteAll) {
  const int Memory = memfd_create("kept", 0);
  EXPECT_EQ(tried([&] { EXPECT_TRUE(writeAll(Memory, "text")); }, Memory), 0);
  EXPECT_EQ(lseek(Memory, 0, SEEK_END), 4);
  const int Ended = tried([&] { (void)!write(Memory, "more", 4); }, Memory);
  EXPECT_TRUE(WIFSIGNALED(Ended) && WTERMSIG(Ended) == SIGXFSZ);
  EXPECT_EQ(lseek(Memory, 0, SEEK_END), 4);
  close(Memory);
}

TEST_F(TrialProcess, FailsIfItExitsOrGoesOn) {
  std::atexit([] {});
  for (const std::function<void()> &Leave : {std::function<void()>([] { std::exit(0); }),
                                             {[] { std::quick_exit(0); }},
                                             {[] { mustNotBeTrial(); }}}) {
    const int Ended = tried(Leave);
    EXPECT_TRUE(WIFEXITED(Ended) && WEXITSTATUS(Ended) == 1) << Ended;
  }
  mustNotBeTrial(); // not here
  EXPECT_FALSE(isTrial());
}

// A static object with a destructor registers that when it is made, in whichever thread of a
// linker.
TEST_F(TrialProcess, IsForkedWhileAnotherThreadRegistersSomethingForTheExit) {
  std::atomic<bool> Enough = false;
  std::thread Other([&Enough] {
    static int Unit;
    while (!Enough) {
      __cxa_atexit([](void *) {}, nullptr, &Unit);
      __cxa_finalize(&Unit);
    }
  });
  int Failed = 0;
  for (int I = 0; I < 200 && Failed == 0; ++I) {
    Child Trial;
    if (Trial.fork()) {
      isolate();
      _exit(0);
    }
    pollfd End{Trial.Alive, POLLIN, 0};
    Failed += Trial.Id < 0 || poll(&End, 1, 30000) != 1; // far more than it takes
    Trial.end();
  }
  Enough = true;
  Other.join();
  EXPECT_EQ(Failed, 0);
}

TEST_F(TrialProcess, ChangesNoFileByItsPath) {
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 0)
    GTEST_SKIP() << "this kernel has no Landlock";
  const std::string Path = Folder / "output", Other = Folder / "other";
  EXPECT_EQ(tried([&] {
              bool Done = rename(Path.c_str(), Other.c_str()) == 0;
              Done |= unlink(Path.c_str()) == 0;
              Done |= open(Path.c_str(), O_WRONLY | O_TRUNC) >= 0;
              Done |= open(Other.c_str(), O_WRONLY | O_CREAT, 0666) >= 0;
              Done |= mkdir(Other.c_str(), 0777) == 0;
              Done |= symlink(Path.c_str(), Other.c_str()) == 0;
              Done |= link(Path.c_str(), Other.c_str()) == 0;
              if (Done || open(Path.c_str(), O_RDONLY) < 0)
                _exit(2);
            }),
            0);
  EXPECT_TRUE(isAsBefore());
}

TEST_F(TrialProcess, HasTrialsOfItsOwn) {
  EXPECT_EQ(tried([] {
              if (tried([] {}) != 0)
                _exit(2);
            }),
            0);
}

class Racing : public TrialProcess {
protected:
  void SetUp() override {
    TrialProcess::SetUp();
    ASSERT_TRUE(Answers.allocate(Runs.size()));
  }

  const std::vector<size_t> Runs = {3, 1, 0, 2};
  SharedArray<int> Answers;
  Race Forked;
  std::vector<size_t> Ended;
};

TEST_F(Racing, EachRunAnswersInSharedMemory) {
  const std::string Path = Folder / "output";
  const int File = open(Path.c_str(), O_WRONLY | O_APPEND);
  const auto Own = Forked.race(Runs, 2, {}, [&](size_t Run, Race::End How) {
    EXPECT_FALSE(How.IsLate);
    EXPECT_EQ(WEXITSTATUS(How.Status), int(Run));
    EXPECT_FALSE(Forked.isRunning(Run));
    Ended.push_back(Run);
    return true;
  });
  if (Own) {
    if (isTrial() && write(File, "after", 5) == 5)
      Answers[*Own] = int(*Own) + 10;
    _exit(int(*Own));
  }
  close(File);
  EXPECT_EQ(Forked.error(), 0);
  for (const size_t Run : Runs)
    EXPECT_EQ(Answers[Run], int(Run) + 10);
  EXPECT_EQ(std::set<size_t>(Ended.begin(), Ended.end()).size(), Runs.size());
  EXPECT_TRUE(isAsBefore()) << "nothing is written where a run writes";
}

TEST_F(Racing, IsOverWhereItsCallerHasEnough) {
  const auto Own = Forked.race(Runs, 1, {}, [&](size_t Run, Race::End) {
    Ended.push_back(Run);
    return Ended.size() < 2;
  });
  if (Own)
    _exit(0);
  EXPECT_EQ(Ended, (std::vector<size_t>{3, 1}));
}

TEST_F(Racing, SaysWhyThereIsNoProcess) {
  EXPECT_EQ(tried([&] {
              const rlimit None{3, 3}; // no descriptor for a pipe
              setrlimit(RLIMIT_NOFILE, &None);
              const auto Own = Forked.race(Runs, 2, {}, [](size_t, Race::End) { return true; });
              if (Own || Forked.error() != EMFILE)
                _exit(2);
            }),
            0);
}

} // namespace
} // namespace mlbridge::trial
