// runtime_test [NAME=CONTAINER-FILE ...]: runs all tests; stops at the first failure.
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/testing.h"

namespace blade::testing {
namespace {

Test* first = nullptr;
std::map<std::string, std::string> programs;

}  // namespace

Test::Test(const char* name, void (*run)()) : name(name), run(run), next(first) { first = this; }

const std::string& Program(const std::string& name) {
  const auto found = programs.find(name);
  if (found == programs.end()) Fail(__FILE__, __LINE__, "no program " + name + " was given");
  return found->second;
}

}  // namespace blade::testing

int main(int argc, char** argv) {
  using namespace blade::testing;
  for (int i = 1; i < argc; ++i) {
    const char* equals = std::strchr(argv[i], '=');
    if (equals == nullptr) Fail(__FILE__, __LINE__, "usage: runtime_test NAME=FILE ...");
    std::ifstream file(equals + 1, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    programs[std::string(argv[i], equals - argv[i])] = bytes.str();
  }
  int count = 0;
  for (const Test* test = first; test != nullptr; test = test->next, ++count) {
    std::printf("%s\n", test->name);
    std::fflush(stdout);
    test->run();
  }
  std::printf("%d tests passed\n", count);
  return 0;
}
