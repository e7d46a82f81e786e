// What the windows of a convolution see, as pieces of memory that are contiguous.
#ifndef BLADE_CONV_WINDOW_H_
#define BLADE_CONV_WINDOW_H_

#include <vector>

#include "blade_abi.h"
#include "gemm/kernels.h"

namespace blade {

// The geometry of a convolution, in as few dims as it can be told in, the last ones.
struct Window {
  explicit Window(const BladeConv& conv);

  BladeInt batch;
  BladeInt channels;  // of a pixel of x, all groups
  BladeInt in[3], size[3], out[3], stride[3], dilation[3], low[3];
  bool padded;  // some window sees something outside of x

  BladeInt pixels() const { return batch * out[0] * out[1] * out[2]; }
  BladeInt taps() const { return size[0] * size[1] * size[2]; }

 private:
  void DropDims();
};

// How a copy lies in memory: pixels with all their channels, or planes of one channel each, in
// which the pixels that neighbouring windows see at a place are neighbours.
enum class Layout { kPixels, kPlanes };

// Finds what the windows of a block of output pixels see of some channels. Where no window reaches
// beyond x they read x itself, else a copy of its part with zeros around: 256 KiB, for the stack.
//
//   reader.Read(p, reader.BlockEnd(p, end));
//   // element c of tap t in the window of pixel p + i is
//   reader.data()[reader.rows()[i] + reader.taps()[t].a + c * reader.step()]
template <typename T>
class WindowReader {
 public:
  static constexpr BladeInt kMaxPixels = 1024;
  // Elements that can be read beyond a row of planes, and zeros that may be before it.
  static constexpr BladeInt kSlack = 64, kMostPadding = 1024;

  // Reads channels [channel, channel + channels), each of them `repeat` times. joined: places that
  // are the same distance apart are one tap of length() elements. Planes are always copied, with
  // one tap for each place and channel; beyond the last pixel of a row kSlack elements can be read.
  WindowReader(const Window& window, const void* x, BladeInt channel, BladeInt channels,
               BladeInt repeat, bool joined, Layout layout = Layout::kPixels);

  // Whether the copy for the windows of `pixels` pixels in a row has room.
  static bool Fits(const Window& window, BladeInt channels, BladeInt pixels,
                   Layout layout = Layout::kPixels);

  // Where a block ends that begins with pixel p: before `end`, perhaps.
  BladeInt BlockEnd(BladeInt p, BladeInt end) const;

  void Read(BladeInt begin, BladeInt end);

  const T* data() const { return copies_ ? copy_ : x_; }
  const BladeInt* rows() const { return rows_; }
  // In the order of the filter; Tap::b is the number of the tap's first place (of the place and
  // channel, in planes).
  const std::vector<Tap>& taps() const { return taps_; }
  // Elements of a tap.
  BladeInt length() const { return length_; }
  // The distance between them.
  BladeInt step() const { return step_; }

 private:
  static constexpr BladeInt kCapacity = 256 * 1024 / sizeof(T);

  // Rows of x that `n` output rows see: those from the first to the last, or window by window when
  // that is less.
  static bool DenseRows(const Window& w) { return w.dilation[1] == 1 && w.stride[1] <= w.size[1]; }
  static BladeInt CopiedRows(const Window& w, BladeInt n) {
    return DenseRows(w) ? (n - 1) * w.stride[1] + w.size[1] : n * w.size[1];
  }
  // The same along the row: dilated places have a piece of the row each.
  static BladeInt Pieces(const Window& w) { return w.dilation[2] == 1 ? 1 : w.size[2]; }
  static BladeInt CopiedColumns(const Window& w, BladeInt n, Layout layout) {
    const BladeInt step = w.stride[2], places = w.dilation[2] == 1 ? w.size[2] : 1;
    // Planes have every step-th column each, and are equally long.
    if (layout == Layout::kPlanes) return (n - 1 + (places - 1) / step + 1) * step;
    return (n - 1) * step + places;
  }

  void ReadInPlace(BladeInt begin, BladeInt end);
  void ReadCopy(BladeInt begin, BladeInt end);
  // Copies columns [from, from + n) of a row of x, or zeros when `row` is null.
  void CopyRow(const T* row, BladeInt from, BladeInt n, T* to) const;
  // The same, in planes.
  void CopyPlanes(const T* row, BladeInt from, BladeInt n, T* to) const;
  // Lists taps that are these many elements apart.
  void SetTaps(BladeInt depth, BladeInt row, BladeInt column);
  void SetPlaneTaps(BladeInt depth, BladeInt row, BladeInt columns);

  const Window& window_;
  const T* x_;
  const BladeInt channels_, repeat_;
  const Layout layout_;
  const bool copies_, may_join_, joined_;
  BladeInt length_ = 0, step_ = 1;
  std::vector<Tap> taps_;
  BladeInt rows_[kMaxPixels];
  alignas(64) T copy_[kCapacity + kSlack + kMostPadding];
};

}  // namespace blade

#endif  // BLADE_CONV_WINDOW_H_
