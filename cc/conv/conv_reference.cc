#include <vector>

#include "conv/conv.h"

namespace blade {
namespace {

const char* Refuse(const BladeConv&) { return nullptr; }

// Adds to `sums`, one for each filter of group `g`, what the window at place `at` of input entry
// `n` sees.
template <typename T>
void AddWindow(const BladeConv& c, BladeInt n, const BladeInt (&at)[3], BladeInt g, double* sums) {
  const BladeInt all_channels = c.groups * c.channels, all_filters = c.groups * c.filters;
  BladeInt k[3], place[3];
  for (k[0] = 0; k[0] < c.window[0]; ++k[0]) {
    for (k[1] = 0; k[1] < c.window[1]; ++k[1]) {
      for (k[2] = 0; k[2] < c.window[2]; ++k[2]) {
        bool inside = true;
        for (int d = 0; d < 3; ++d) {
          place[d] = at[d] * c.stride[d] - c.low[d] + k[d] * c.dilation[d];
          inside &= place[d] >= 0 && place[d] < c.in[d];
        }
        if (!inside) continue;
        const BladeInt pixel = ((n * c.in[0] + place[0]) * c.in[1] + place[1]) * c.in[2] + place[2];
        const BladeInt tap = (k[0] * c.window[1] + k[1]) * c.window[2] + k[2];
        const T* x = static_cast<const T*>(c.x) + pixel * all_channels + g * c.channels;
        const T* w =
            static_cast<const T*>(c.filter) + tap * c.channels * all_filters + g * c.filters;
        for (BladeInt p = 0; p < c.channels; ++p, w += all_filters) {
          for (BladeInt j = 0; j < c.filters; ++j) sums[j] += static_cast<double>(x[p]) * w[j];
        }
      }
    }
  }
}

template <typename T>
int RunTyped(const BladeConv& c) {
  T* y = static_cast<T*>(c.y);
  const T* bias = static_cast<const T*>(c.bias);
  std::vector<double> sums(c.filters);
  BladeInt at[3];
  for (BladeInt n = 0; n < c.batch; ++n) {
    for (at[0] = 0; at[0] < c.out[0]; ++at[0]) {
      for (at[1] = 0; at[1] < c.out[1]; ++at[1]) {
        for (at[2] = 0; at[2] < c.out[2]; ++at[2]) {
          for (BladeInt g = 0; g < c.groups; ++g) {
            sums.assign(c.filters, 0);
            AddWindow<T>(c, n, at, g, sums.data());
            for (BladeInt j = 0; j < c.filters; ++j) {
              T value = static_cast<T>(sums[j]);
              if (bias != nullptr) value += bias[g * c.filters + j];
              if (c.activation == BLADE_ACTIVATION_RELU) value = value < T(0) ? T(0) : value;
              *y++ = value;
            }
          }
        }
      }
    }
  }
  return BLADE_OK;
}

int Run(const BladeConv& conv, const GemmHost&, const PackedB*) {
  return WithType(conv, [&](auto zero) { return RunTyped<decltype(zero)>(conv); });
}

}  // namespace

const ConvImplementation kConvReference = {"conv_reference", Refuse, Run};

}  // namespace blade
