// SHA-256 (FIPS 180-4), used to check an executable before it is mapped.
#ifndef BLADE_SHA256_H_
#define BLADE_SHA256_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace blade {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(std::string_view data);

}  // namespace blade

#endif  // BLADE_SHA256_H_
