// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs what c_test.c and environment_test.c have, and sees that the headers are C++ as well.
#include <mlbridge/c/mlbridge.h>

#include "testing/built.h"
#include "testing/server_thread.h"

#include <gtest/gtest.h>

extern "C" {
int test_function(void);
int test_buffers(void);
int test_memory(const char *file);
int test_failures(void);
int test_strings_and_dynamic(void);
int test_every_type(void);
int test_threads(void);
int test_file(const char *uri);
int test_sizes(void);
int test_values(void);
int test_choices(void);
int test_agents_of_one_model(void);
int test_extensions(void);
int test_environment(void);
int test_environment_mistakes(void);
int test_agents(void);
int test_server_and_driver(const char *uri);
}

static const std::string Linear = mlbridge::testing::sourceFile("tests/golden/onnx/linear.onnx");

// A number that is not 0 is the line that failed.
TEST(C, AFunctionIsAModel) { EXPECT_EQ(test_function(), 0); }
TEST(C, TensorsByIndexAndInTheCallersMemory) { EXPECT_EQ(test_buffers(), 0); }
#ifdef MLBRIDGE_HAS_NATIVE
TEST(C, AModelFromMemory) { EXPECT_EQ(test_memory(Linear.c_str()), 0); }
#endif
TEST(C, FailuresAreCodesAndMessages) { EXPECT_EQ(test_failures(), 0); }
TEST(C, TakesStringsAndDynamicLengths) { EXPECT_EQ(test_strings_and_dynamic(), 0); }
TEST(C, PassesEveryType) { EXPECT_EQ(test_every_type(), 0); }
TEST(C, RunnersOfManyThreads) { EXPECT_EQ(test_threads(), 0); }
TEST(C, TakesStructuresOfOtherVersions) { EXPECT_EQ(test_sizes(), 0); }
TEST(C, ShowsTypesCodesAndSignatures) { EXPECT_EQ(test_values(), 0); }
TEST(C, ChoosesAmongLogits) { EXPECT_EQ(test_choices(), 0); }
TEST(C, OneModelOfSeveralAgents) { EXPECT_EQ(test_agents_of_one_model(), 0); }
TEST(C, RefusesTablesOfOthers) { EXPECT_EQ(test_extensions(), 0); }
TEST(C, APassIsAnEnvironment) { EXPECT_EQ(test_environment(), 0); }
TEST(C, MistakesOfAnEnvironmentEndItsEpisode) { EXPECT_EQ(test_environment_mistakes(), 0); }
TEST(C, AgentsTakeTurns) { EXPECT_EQ(test_agents(), 0); }
TEST(C, ServersAndDriversCarryTheirFailures) {
  const mlbridge::testing::TemporaryFolder folder;
  EXPECT_EQ(test_server_and_driver(("unix:" + folder / "s").c_str()), 0);
}
#ifdef MLBRIDGE_C_TEST_ONNX
TEST(C, RunsAnOnnxFile) { EXPECT_EQ(test_file(("onnx:" + Linear).c_str()), 0); }
#endif
