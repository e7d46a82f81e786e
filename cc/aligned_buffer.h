// Memory aligned to a cache line.
#ifndef BLADE_ALIGNED_BUFFER_H_
#define BLADE_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace blade {

// Owns `size` uninitialised bytes, 64-byte aligned. data() is null when allocation failed.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size) {
    // At least one line, so that an empty buffer has an address too.
    const size_t rounded = size / kAlignment * kAlignment + kAlignment;
    if (rounded > size) data_.reset(std::aligned_alloc(kAlignment, rounded));
  }

  void* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  std::unique_ptr<void, Free> data_;
};

}  // namespace blade

#endif  // BLADE_ALIGNED_BUFFER_H_
