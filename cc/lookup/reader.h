// Reads tokens of a lookup's text form; the first mistake sticks.
#ifndef BLADE_LOOKUP_READER_H_
#define BLADE_LOOKUP_READER_H_

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace blade {

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }

  void Fail(const std::string& why) {
    if (ok()) error_ = why;
  }

  // The next token; empty at the end, or after a mistake.
  std::string_view Word() {
    if (!ok()) return {};
    const size_t begin = rest_.find_first_not_of(kSpace);
    if (begin == rest_.npos) {
      Fail("the text ends early");
      return {};
    }
    const size_t end = std::min(rest_.find_first_of(kSpace, begin), rest_.size());
    const std::string_view word = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return word;
  }

  bool AtEnd() const { return rest_.find_first_not_of(kSpace) == rest_.npos; }

  void Expect(std::string_view word) {
    if (Word() != word) Fail("'" + std::string(word) + "' is missing");
  }

  template <class T = int64_t>
  T Number(T least = std::numeric_limits<T>::min(), T most = std::numeric_limits<T>::max()) {
    return ToNumber(Word(), least, most);
  }

  template <class T>
  T ToNumber(std::string_view word, T least, T most) {
    T value{};
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (code != std::errc() || end != word.data() + word.size() || value < least || value > most) {
      Fail("'" + std::string(word.substr(0, 40)) + "' is no number in range");
      return least;
    }
    return value;
  }

  // A number of things that have a token each, at least: not more than there is text.
  int Count() { return Number<int>(0, static_cast<int>(std::min<size_t>(rest_.size(), kMost))); }

  int Index(size_t size) {
    const int most = static_cast<int>(size) - 1;
    const int index = Number<int>(0, std::max(most, 0));
    if (most < 0) Fail("there is nothing to choose from");
    return index;
  }

  bool Flag() { return Number<int>(0, 1) == 1; }

  double Real() { return ToReal(Word()); }

  double ToReal(std::string_view word) {
    uint64_t bits = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), bits, 16);
    if (word.size() != 16 || code != std::errc() || end != word.data() + word.size()) {
      Fail("'" + std::string(word.substr(0, 40)) + "' is no float");
      return 0;
    }
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  std::string Bytes() {
    const std::string_view word = Word();
    std::string bytes;
    if (word.size() % 2 != 1 || word[0] != 'x') Fail("a string is missing");
    for (size_t i = 1; ok() && i < word.size(); i += 2) {
      const int high = Digit(word[i]), low = Digit(word[i + 1]);
      if (high < 0 || low < 0) Fail("a string has bad digits");
      bytes += static_cast<char>(high * 16 + low);
    }
    return bytes;
  }

 private:
  static constexpr std::string_view kSpace = " \t\n\r";
  static constexpr size_t kMost = size_t{1} << 30;

  static int Digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  }

  std::string_view rest_;
  std::string error_;
};

}  // namespace blade

#endif  // BLADE_LOOKUP_READER_H_
