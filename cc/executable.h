// A compiled cluster: checked, mapped into the process, ready to run.
//
// An executable travels as one byte string, the container (all integers little endian):
//
//   "TFBLADE1"                      8 bytes
//   abi_version                     u32
//   isa_count, then for each ISA    u32; u32 length, name
//   sha256 of the payload           32 bytes
//   payload size                    u64
//   payload                         an ELF shared object that exports `blade_executable`
//
// Everything that can be checked without running the payload is checked before it is mapped.
#ifndef BLADE_EXECUTABLE_H_
#define BLADE_EXECUTABLE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "blade_abi.h"
#include "sha256.h"

namespace blade {

// The parsed container. Views point into the bytes it was parsed from.
struct Container {
  unsigned abi_version = 0;
  std::vector<std::string_view> isas;
  Sha256Digest digest{};
  std::string_view payload;
};

// Reads a container's header and checks its layout, ABI version and ISAs, but not the hash. On
// failure returns false and puts a one-line reason into *error.
bool ParseContainer(std::string_view bytes, Container* container, std::string* error);

// Thread-safe and immutable. Equal payloads share one mapping, which goes when its last user does.
class Executable {
 public:
  // Checks `container` and maps it. Returns null with a one-line reason in *error when it is
  // malformed, was built for another ABI, doesn't match its hash, has no variant for this
  // processor, or can't be opened. `container` need not outlive the call.
  static std::shared_ptr<const Executable> Load(std::string_view container, std::string* error);

  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const char* name() const { return description_->name; }
  int n_inputs() const { return description_->n_inputs; }
  int n_outputs() const { return description_->n_outputs; }
  int n_refusals() const { return description_->n_refusals; }
  // The ISA of the variant that runs here.
  const char* isa() const { return variant_->isa; }

  // Why `run` returned `status` (non-zero): a refusal's text or a sentence for the status.
  const char* Reason(int status) const;

  // Runs on `n_inputs()` inputs. Returns a BladeStatus or the positive index of a refusal.
  int Run(const BladeHost& host, void* ctx, const BladeTensor* inputs) const {
    return variant_->run(&host, ctx, inputs);
  }

 private:
  Executable(void* library, const BladeExecutable* description, const BladeVariant* variant)
      : library_(library), description_(description), variant_(variant) {}

  static std::shared_ptr<const Executable> Map(std::string_view payload, std::string* error);

  void* library_;  // what dlopen returned
  const BladeExecutable* description_;
  const BladeVariant* variant_;
};

}  // namespace blade

#endif  // BLADE_EXECUTABLE_H_
