// A few lines of test framework: the C++ tests are one binary without dependencies, so that it can
// be built under every sanitizer.
#ifndef BLADE_TESTS_TESTING_H_
#define BLADE_TESTS_TESTING_H_

#include <cstdio>
#include <cstdlib>
#include <string>

namespace blade::testing {

struct Test {
  Test(const char* name, void (*run)());
  const char* name;
  void (*run)();
  Test* next;
};

// Ends the process with a message.
[[noreturn]] inline void Fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  std::exit(1);
}

// The container of tests/cc/programs.py's program `name`; main() reads them from its arguments.
const std::string& Program(const std::string& name);

}  // namespace blade::testing

#define TEST(name)                                            \
  static void name();                                         \
  static const blade::testing::Test test_##name(#name, name); \
  static void name()

#define CHECK(condition) \
  if (!(condition)) blade::testing::Fail(__FILE__, __LINE__, "not true: " #condition)

#define CHECK_EQ(a, b) \
  if (!((a) == (b))) blade::testing::Fail(__FILE__, __LINE__, "not equal: " #a " and " #b)

// The string contains the words.
#define CHECK_SAYS(text, words)                \
  if ((text).find(words) == std::string::npos) \
  blade::testing::Fail(__FILE__, __LINE__, "'" + std::string(text) + "' doesn't say " words)

#endif  // BLADE_TESTS_TESTING_H_
