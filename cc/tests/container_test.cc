// Loading: what is accepted, and the reason why anything else isn't.
#include <cstring>
#include <memory>
#include <string>

#include "cpu_features.h"
#include "executable.h"
#include "sha256.h"
#include "tests/testing.h"

namespace blade {
namespace {

using testing::Program;

std::string Hex(const Sha256Digest& digest) {
  std::string hex;
  for (const uint8_t byte : digest) {
    char text[3];
    std::snprintf(text, sizeof(text), "%02x", byte);
    hex += text;
  }
  return hex;
}

std::string WhyRefused(const std::string& container) {
  std::string error;
  CHECK(Executable::Load(container, &error) == nullptr);
  CHECK(!error.empty());
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

TEST(Sha256_has_the_standard_s_digests) {
  CHECK_EQ(Hex(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(Hex(Sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(Hex(Sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQ(Hex(Sha256(std::string(1000000, 'a'))),
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(A_container_is_loaded_and_described) {
  std::string error;
  const auto executable = Executable::Load(Program("add"), &error);
  CHECK(executable != nullptr);
  CHECK_EQ(std::string(executable->name()), "tiny");
  CHECK_EQ(executable->n_inputs(), 2);
  CHECK_EQ(executable->n_outputs(), 2);
  CHECK_EQ(executable->n_refusals(), 2);
  CHECK(SupportsIsa(executable->isa()));
  CHECK_EQ(std::string(executable->Reason(2)), "Add (head/add): input dims differ");
  CHECK_EQ(std::string(executable->Reason(BLADE_OUT_OF_MEMORY)), "out of memory");
  CHECK_SAYS(std::string(executable->Reason(3)), "unknown status");
  CHECK_SAYS(std::string(executable->Reason(-77)), "unknown status");
}

TEST(Equal_containers_share_one_mapping_that_goes_with_its_last_user) {
  std::string error;
  auto first = Executable::Load(Program("add"), &error);
  const auto second = Executable::Load(Program("add"), &error);
  CHECK_EQ(first, second);
  std::weak_ptr<const Executable> watch = first;
  first = nullptr;
  CHECK(!watch.expired());
}

TEST(Different_containers_never_share_a_mapping) {
  // Memory files get the same descriptor number one after the other.
  std::string error;
  for (int i = 0; i < 5; ++i) {
    const auto add = Executable::Load(Program("add"), &error);
    const auto dense = Executable::Load(Program("dense"), &error);
    CHECK_EQ(add->n_inputs(), 2);
    CHECK_EQ(dense->n_inputs(), 3);
  }
}

TEST(A_container_cut_off_anywhere_is_refused) {
  const std::string& whole = Program("add");
  for (size_t size = 0; size < whole.size(); size += size < 100 ? 1 : 997) {
    WhyRefused(whole.substr(0, size));
  }
  CHECK_SAYS(WhyRefused(whole + "x"), "bytes after its end");
}

TEST(A_container_with_any_byte_of_its_header_changed_is_refused) {
  const std::string& whole = Program("add");
  const size_t header = whole.find(
      "\x7f"
      "ELF");
  CHECK(header != std::string::npos && header < 100);
  for (size_t i = 0; i < header; ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    WhyRefused(damaged);
  }
}

TEST(A_damaged_payload_is_refused_even_while_the_good_one_is_mapped) {
  std::string error;
  const auto good = Executable::Load(Program("add"), &error);
  CHECK(good != nullptr);
  std::string damaged = Program("add");
  damaged[damaged.size() - 50] ^= 1;
  CHECK_SAYS(WhyRefused(damaged), "doesn't match its hash");
}

TEST(A_container_that_claims_huge_sizes_is_refused) {
  std::string huge = Program("add").substr(0, 12) + std::string("\xff\xff\xff\xff", 4);
  CHECK_SAYS(WhyRefused(huge), "truncated");
  huge = Program("add");
  const size_t size_at = huge.find(
                             "\x7f"
                             "ELF") -
                         8;
  std::memset(&huge[size_at], 0xff, 8);
  CHECK_SAYS(WhyRefused(huge), "truncated");
}

TEST(Levels_include_the_lower_ones) {
  CHECK(!SupportsIsa("x86-64-v9"));
  CHECK(!SupportsIsa(""));
  if (SupportsIsa("x86-64-v4")) CHECK(SupportsIsa("x86-64-v3"));
  if (SupportsIsa("x86-64-v3")) CHECK(SupportsIsa("x86-64-v2"));
  for (const std::string& name : SupportedIsas()) CHECK(SupportsIsa(name));
}

}  // namespace
}  // namespace blade
