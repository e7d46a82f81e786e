// Reading a lookup's text: what is malformed is refused with a reason, whatever it is.
#include <random>
#include <string>
#include <vector>

#include "tests/lookup_columns.h"
#include "tests/testing.h"

namespace blade {
namespace {

using testing::ColumnInputs;
using testing::ColumnRun;
using testing::kColumns;

std::string ErrorOf(const std::string& text) {
  std::string error;
  CHECK(Lookup::Parse(text, &error) == nullptr);
  return error;
}

std::string Replaced(const std::string& what, const std::string& by) {
  std::string text = kColumns;
  const size_t at = text.find(what);
  CHECK(at != text.npos);
  return text.replace(at, what.size(), by);
}

TEST(Malformed_lookups_are_refused_with_a_reason) {
  CHECK_SAYS(ErrorOf(""), "the text ends early");
  CHECK_SAYS(ErrorOf("lookup 2"), "no number in range");
  CHECK_SAYS(ErrorOf(std::string(kColumns) + " 1"), "text after the lookup");
  CHECK_SAYS(ErrorOf(Replaced("string i64 i64", "text i64 i64")), "'text' is no dtype");
  CHECK_SAYS(ErrorOf(Replaced("ne bool 2 0 1", "ne bool 2 0 2")), "an operand isn't there");
  CHECK_SAYS(ErrorOf(Replaced("ne bool", "no bool")), "operation 'no' isn't known");
  CHECK_SAYS(ErrorOf(Replaced("hash_fast i64 1 0 7", "hash_fast i32 1 0 7")), "has no such dtype");
  CHECK_SAYS(ErrorOf(Replaced("hash_fast i64 1 0 7", "hash_fast i64 1 0 0")), "in range");
  CHECK_SAYS(ErrorOf(Replaced("cross 2 0 1", "cross 2 0 3")), "in range");
  CHECK_SAYS(ErrorOf(Replaced("35 16 bag 3", "36 16 bag 3")), "cover");
  CHECK_SAYS(ErrorOf(Replaced("35 16 bag 3", "35 16 bag 2")), "a part's width isn't its bag's");
  CHECK_SAYS(ErrorOf(Replaced("x6c6f", "x6c6")), "a string is missing");
  CHECK_SAYS(ErrorOf(Replaced("3ff0000000000000", "3ff000000000000")), "is no float");
}

TEST(Text_that_is_changed_anywhere_is_refused_or_a_lookup_that_runs) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(kColumns)) {
    if (c == ' ' || c == '\n') {
      words.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  const char* const others[] = {"0",   "1",   "2",    "3",         "-1",  "16",     "x",    "x61",
                                "i64", "f32", "none", "indicator", "mod", "string", "dense"};
  std::mt19937 random(0);
  const ColumnInputs inputs(9, 4);
  int read = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    const size_t at = random() % words.size();
    for (size_t w = 0; w < words.size(); ++w) {
      text += (w == at ? others[random() % 15] : words[w]) + ' ';
    }
    std::string error;
    const auto lookup = Lookup::Parse(text, &error);
    if (lookup == nullptr) {
      CHECK(!error.empty());
      continue;
    }
    ++read;
    if (lookup->n_inputs() > 9 || lookup->n_outputs() != 2) continue;
    CHECK(ColumnRun(*lookup, inputs, nullptr).status >= BLADE_OK);
  }
  CHECK(read > 100);
}

}  // namespace
}  // namespace blade
