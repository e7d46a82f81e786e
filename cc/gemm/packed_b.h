// Constant right-hand sides of matrix products, packed once.
#ifndef BLADE_GEMM_PACKED_B_H_
#define BLADE_GEMM_PACKED_B_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "aligned_buffer.h"
#include "blade_abi.h"

namespace blade {

// B in the order the kernels read it. For each batch entry, either panels of `columns` columns,
// [panel][k][columns], the last one padded with zeros, or (columns == 0) B transposed, [n][k].
struct PackedB {
  // Where it came from: a product may use this when all of these are equal.
  const void* source;
  int dtype, transpose;
  BladeInt batch, n, k, ld, stride;

  int columns;
  BladeInt batch_stride;  // elements between batch entries; 0 when one matrix serves all
  AlignedBuffer data;

  bool Fits(const BladeGemm& gemm) const;

  // The panels as gemm/split.h has them, made when first asked for: [batch entry][panel]. Null when
  // there is a number that can't be split, memory runs out, or B has no panels of that width.
  const uint16_t* Split() const;

  // The first element of batch entry `i`.
  template <typename T>
  const T* Entry(BladeInt i) const {
    return static_cast<const T*>(data.data()) + i * batch_stride;
  }

 private:
  mutable std::once_flag split_once_;
  mutable AlignedBuffer split_;
};

// Packs the B of `gemm`; null when it isn't f32 or f64, is empty, or memory runs out.
std::unique_ptr<PackedB> PackB(const BladeGemm& gemm);

// The packed constants of one kernel. Reading takes no lock.
class PackedConstants {
 public:
  explicit PackedConstants(int n_inputs) : slots_(n_inputs) {}
  ~PackedConstants();
  PackedConstants(const PackedConstants&) = delete;
  PackedConstants& operator=(const PackedConstants&) = delete;

  // The packed B of `gemm`, or null when it isn't there (yet).
  const PackedB* Find(const BladeGemm& gemm) const;

  // Packs the B of `gemm`, which is input `gemm.b_constant_input`, unless it is there already.
  // `owner` keeps the input's memory from being reused while it is the key of an entry. Returns
  // null when it can't be packed or enough different matrices have been seen for this input.
  const PackedB* FindOrPack(const BladeGemm& gemm, std::shared_ptr<const void> owner);

 private:
  struct Entry {
    std::unique_ptr<PackedB> packed;
    std::shared_ptr<const void> owner;
    Entry* next;
  };

  // A list that only grows, at its front.
  struct Slot {
    std::atomic<Entry*> first{nullptr};
  };

  // A model multiplies by one weight matrix in a handful of ways at most. More different ones mean
  // that the input isn't constant after all (an op run eagerly): those are packed on the way.
  static constexpr int kMaxEntries = 8;

  std::vector<Slot> slots_;
  std::mutex packing_;
};

}  // namespace blade

#endif  // BLADE_GEMM_PACKED_B_H_
