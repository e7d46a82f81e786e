#include "conv/window.h"

#include <algorithm>
#include <cstring>

namespace blade {

Window::Window(const BladeConv& conv)
    : batch(conv.batch), channels(conv.groups * conv.channels), padded(false) {
  for (int d = 0; d < 3; ++d) {
    in[d] = conv.in[d];
    size[d] = conv.window[d];
    out[d] = conv.out[d];
    stride[d] = out[d] == 1 ? 1 : conv.stride[d];
    dilation[d] = size[d] == 1 ? 1 : conv.dilation[d];
    low[d] = conv.low[d];
    const BladeInt last = (out[d] - 1) * stride[d] + (size[d] - 1) * dilation[d] - low[d];
    padded |= low[d] > 0 || last >= in[d];
  }
  DropDims();
}

// Moves dims that are 1 everywhere to the front, and leading ones that the window only walks over
// into the batch.
void Window::DropDims() {
  const auto move = [&](int to, int from) {
    in[to] = in[from], size[to] = size[from], out[to] = out[from];
    stride[to] = stride[from], dilation[to] = dilation[from], low[to] = low[from];
  };
  const auto clear = [&](int d) {
    in[d] = size[d] = out[d] = stride[d] = dilation[d] = 1;
    low[d] = 0;
  };
  int to = 2;
  for (int d = 2; d >= 0; --d) {
    if (in[d] == 1 && size[d] == 1 && out[d] == 1 && low[d] == 0) continue;
    if (to != d) move(to, d);
    --to;
  }
  while (to >= 0) clear(to--);
  for (int d = 0; d < 2; ++d) {
    const bool walks = size[d] == 1 && stride[d] == 1 && low[d] == 0 && in[d] == out[d];
    if (!walks) break;
    batch *= in[d];
    clear(d);
  }
}

template <typename T>
WindowReader<T>::WindowReader(const Window& window, const void* x, BladeInt channel,
                              BladeInt channels, BladeInt repeat, bool joined, Layout layout)
    : window_(window),
      x_(static_cast<const T*>(x) + channel),
      channels_(channels),
      repeat_(repeat),
      layout_(layout),
      copies_(window.padded || repeat > 1 || layout == Layout::kPlanes),
      may_join_(joined),
      joined_(joined && window.dilation[2] == 1 && (copies_ || channels == window.channels)) {
  const Window& w = window_;
  taps_.reserve(w.taps());
  if (copies_) return;
  const BladeInt row = w.in[2] * w.channels;
  SetTaps(w.in[1] * row * w.dilation[0], row * w.dilation[1], w.channels * w.dilation[2]);
}

template <typename T>
bool WindowReader<T>::Fits(const Window& w, BladeInt channels, BladeInt pixels, Layout layout) {
  const BladeInt columns = Pieces(w) * CopiedColumns(w, pixels, layout);
  return w.size[0] * CopiedRows(w, 1) * columns * channels <= kCapacity;
}

template <typename T>
BladeInt WindowReader<T>::BlockEnd(BladeInt p, BladeInt end) const {
  if (!copies_) return std::min(p + kMaxPixels, end);
  const Window& w = window_;
  const BladeInt one = w.size[0] * Pieces(w) * channels_ * repeat_;  // elements of a column
  const BladeInt row = p / w.out[2], column = p % w.out[2];
  if (column == 0 && end - p >= w.out[2]) {
    const BladeInt room = kCapacity / (one * CopiedColumns(w, w.out[2], layout_));
    const BladeInt first = row % w.out[1];  // in its plane
    if (first == 0) {
      const BladeInt plane = w.out[1] * w.out[2];
      const BladeInt planes =
          std::min({room / CopiedRows(w, w.out[1]), kMaxPixels / plane, (end - p) / plane});
      if (planes > 0) return p + planes * plane;
    }
    BladeInt rows = room / w.size[1];
    if (DenseRows(w)) rows = room < w.size[1] ? 0 : (room - w.size[1]) / w.stride[1] + 1;
    rows = std::min({rows, kMaxPixels / w.out[2], (end - p) / w.out[2], w.out[1] - first});
    if (rows > 0) return p + rows * w.out[2];
  }
  const BladeInt room = kCapacity / (one * CopiedRows(w, 1)) - CopiedColumns(w, 1, layout_);
  const BladeInt most = std::min(room / w.stride[2] + 1, kMaxPixels);
  return std::min({p + most, p - column + w.out[2], end});
}

template <typename T>
void WindowReader<T>::Read(BladeInt begin, BladeInt end) {
  if (copies_) {
    ReadCopy(begin, end);
  } else {
    ReadInPlace(begin, end);
  }
}

template <typename T>
void WindowReader<T>::ReadInPlace(BladeInt begin, BladeInt end) {
  const Window& w = window_;
  BladeInt column = begin % w.out[2], row = begin / w.out[2] % w.out[1];
  BladeInt plane = begin / (w.out[2] * w.out[1]);
  for (BladeInt p = begin; p < end;) {
    const BladeInt depth = plane / w.out[0] * w.in[0] + plane % w.out[0] * w.stride[0];
    const BladeInt first = (depth * w.in[1] + row * w.stride[1]) * w.in[2] * w.channels;
    for (; column < w.out[2] && p < end; ++column, ++p) {
      rows_[p - begin] = first + column * w.stride[2] * w.channels;
    }
    column = 0;
    if (++row == w.out[1]) row = 0, ++plane;
  }
}

template <typename T>
void WindowReader<T>::ReadCopy(BladeInt begin, BladeInt end) {
  const Window& w = window_;
  const BladeInt out_rows = (end - 1) / w.out[2] - begin / w.out[2] + 1;
  const BladeInt first_column = out_rows == 1 ? begin % w.out[2] : 0;
  const BladeInt out_columns = out_rows == 1 ? end - begin : w.out[2];
  const BladeInt first_row = begin / w.out[2] % w.out[1];
  const BladeInt first_plane = begin / (w.out[2] * w.out[1]);
  const BladeInt planes = (end - 1) / (w.out[2] * w.out[1]) - first_plane + 1;
  const BladeInt plane_rows = planes == 1 ? out_rows : w.out[1];

  const BladeInt pieces = Pieces(w), wide = channels_ * repeat_;
  const BladeInt columns = CopiedColumns(w, out_columns, layout_), rows = CopiedRows(w, plane_rows);
  const BladeInt row_step = pieces * columns * wide;
  const bool dense = DenseRows(w);
  T* to = copy_;
  for (BladeInt plane = first_plane; plane < first_plane + planes; ++plane) {
    for (BladeInt kd = 0; kd < w.size[0]; ++kd) {
      const BladeInt depth = plane % w.out[0] * w.stride[0] + kd * w.dilation[0] - w.low[0];
      for (BladeInt i = 0; i < rows; ++i) {
        const BladeInt row = dense ? first_row * w.stride[1] + i - w.low[1]
                                   : (first_row + i / w.size[1]) * w.stride[1] +
                                         i % w.size[1] * w.dilation[1] - w.low[1];
        const bool inside = depth >= 0 && depth < w.in[0] && row >= 0 && row < w.in[1];
        const BladeInt line = (plane / w.out[0] * w.in[0] + depth) * w.in[1] + row;
        for (BladeInt piece = 0; piece < pieces; ++piece, to += columns * wide) {
          const BladeInt from = first_column * w.stride[2] + piece * w.dilation[2] - w.low[2];
          const T* line_of_x = inside ? x_ + line * w.in[2] * w.channels : nullptr;
          if (layout_ == Layout::kPlanes) {
            CopyPlanes(line_of_x, from, columns, to);
          } else {
            CopyRow(line_of_x, from, columns, to);
          }
        }
      }
    }
  }
  const BladeInt step = layout_ == Layout::kPlanes ? 1 : w.stride[2] * wide;
  BladeInt p = 0;
  for (BladeInt plane = 0; plane < planes; ++plane) {
    for (BladeInt row = 0; row < plane_rows; ++row) {
      const BladeInt place = plane * w.size[0] * rows + row * (dense ? w.stride[1] : w.size[1]);
      for (BladeInt column = 0; column < out_columns; ++column) {
        rows_[p++] = place * row_step + column * step;
      }
    }
  }
  if (layout_ == Layout::kPlanes) return SetPlaneTaps(rows * row_step, row_step, columns);
  SetTaps(rows * row_step, row_step, pieces > 1 ? columns * wide : wide);
}

template <typename T>
void WindowReader<T>::CopyRow(const T* row, BladeInt from, BladeInt n, T* to) const {
  const BladeInt wide = channels_ * repeat_;
  if (row == nullptr) {
    std::memset(to, 0, sizeof(T) * n * wide);
    return;
  }
  const BladeInt begin = std::min(std::max<BladeInt>(-from, 0), n);
  const BladeInt end = std::max(std::min(window_.in[2] - from, n), begin);
  std::memset(to, 0, sizeof(T) * begin * wide);
  std::memset(to + end * wide, 0, sizeof(T) * (n - end) * wide);
  row += (from + begin) * window_.channels;
  to += begin * wide;
  if (wide == window_.channels) {
    std::memcpy(to, row, sizeof(T) * (end - begin) * wide);
    return;
  }
  for (BladeInt i = begin; i < end; ++i, row += window_.channels, to += wide) {
    if (repeat_ == 1) {
      std::memcpy(to, row, sizeof(T) * wide);
      continue;
    }
    for (BladeInt c = 0; c < channels_; ++c) {
      for (BladeInt j = 0; j < repeat_; ++j) to[c * repeat_ + j] = row[c];
    }
  }
}

template <typename T>
void WindowReader<T>::CopyPlanes(const T* row, BladeInt from, BladeInt n, T* to) const {
  const BladeInt step = window_.stride[2], length = n / step;
  for (BladeInt phase = 0; phase < step; ++phase, to += channels_ * length) {
    const BladeInt first = from + phase;
    const BladeInt begin = first < 0 ? (-first + step - 1) / step : 0;
    const BladeInt last = window_.in[2] - 1 - first;
    const BladeInt end = last < 0 ? 0 : std::min(last / step + 1, length);
    if (row == nullptr || begin >= end) {
      std::memset(to, 0, sizeof(T) * channels_ * length);
      continue;
    }
    // Zeros behind a plane's end are those before the next one's pixels.
    std::memset(to, 0, sizeof(T) * begin);
    BestKernels<T>().interleave(row + (first + begin * step) * window_.channels,
                                step * window_.channels, end - begin, channels_,
                                static_cast<int>(length), to + begin);
  }
}

template <typename T>
void WindowReader<T>::SetPlaneTaps(BladeInt depth, BladeInt row, BladeInt columns) {
  const Window& w = window_;
  const BladeInt step = w.stride[2], length = columns / step;
  taps_.clear();
  taps_.reserve(w.taps() * channels_);
  length_ = step_ = 1;
  for (BladeInt kd = 0; kd < w.size[0]; ++kd) {
    for (BladeInt kh = 0; kh < w.size[1]; ++kh) {
      for (BladeInt kw = 0; kw < w.size[2]; ++kw) {
        const BladeInt place = w.dilation[2] > 1 ? kw * columns * channels_
                                                 : kw % step * channels_ * length + kw / step;
        for (BladeInt c = 0; c < channels_; ++c) {
          const BladeInt number = static_cast<BladeInt>(taps_.size());
          taps_.push_back({kd * depth + kh * row + place + c * length, number});
        }
      }
    }
  }
}

template <typename T>
void WindowReader<T>::SetTaps(BladeInt depth, BladeInt row, BladeInt column) {
  taps_.clear();
  const BladeInt(&size)[3] = window_.size;
  step_ = 1;
  if (may_join_ && channels_ == 1 && window_.taps() == std::max({size[0], size[1], size[2]})) {
    // Single elements in one direction.
    length_ = window_.taps();
    step_ = size[0] > 1 ? depth : size[1] > 1 ? row : column;
    taps_.push_back({0, 0});
    return;
  }
  length_ = joined_ ? size[2] * channels_ : channels_;
  const BladeInt columns = joined_ ? 1 : window_.size[2];
  for (BladeInt kd = 0; kd < window_.size[0]; ++kd) {
    for (BladeInt kh = 0; kh < window_.size[1]; ++kh) {
      for (BladeInt kw = 0; kw < columns; ++kw) {
        const BladeInt place = (kd * window_.size[1] + kh) * window_.size[2] + kw;
        taps_.push_back({kd * depth + kh * row + kw * column, place});
      }
    }
  }
}

template class WindowReader<float>;
template class WindowReader<double>;

}  // namespace blade
