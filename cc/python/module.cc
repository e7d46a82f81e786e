// tf_blade._runtime: the runtime without TensorFlow, for tests, replays and tools.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conv/conv.h"
#include "cpu_features.h"
#include "executable.h"
#include "fft/fft.h"
#include "gemm/gemm.h"
#include "host_standalone.h"
#include "lookup/lookup.h"
#include "sha256.h"
#include "thread_pool.h"

namespace py = pybind11;

namespace blade {
namespace {

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The BladeDType of a numpy dtype; 0 when there is none.
int DTypeOf(const py::dtype& dtype) {
  static constexpr struct {
    char kind;
    int size, dtype;
  } kTypes[] = {
      {'f', 2, BLADE_F16},  {'V', 2, BLADE_BF16}, {'f', 4, BLADE_F32}, {'f', 8, BLADE_F64},
      {'b', 1, BLADE_BOOL}, {'i', 1, BLADE_I8},   {'i', 2, BLADE_I16}, {'i', 4, BLADE_I32},
      {'i', 8, BLADE_I64},  {'u', 1, BLADE_U8},   {'u', 2, BLADE_U16}, {'u', 4, BLADE_U32},
      {'u', 8, BLADE_U64},
  };
  for (const auto& type : kTypes) {
    if (type.kind == dtype.kind() && type.size == dtype.itemsize()) return type.dtype;
  }
  return 0;
}

int DTypeOrThrow(const py::dtype& dtype, const std::string& what) {
  const int found = DTypeOf(dtype);
  if (found == 0) {
    throw py::type_error(what + " has dtype " + py::str(dtype).cast<std::string>() +
                         ", which the runtime doesn't know");
  }
  return found;
}

// Pools by their number of threads, made when first asked for; null for one thread.
ThreadPool* PoolOf(int threads) {
  if (threads < 1) throw py::value_error("threads must be at least 1");
  if (threads == 1) return nullptr;
  static auto* pools = new std::map<int, std::unique_ptr<ThreadPool>>;  // guarded by the GIL
  auto& pool = (*pools)[threads];
  if (pool == nullptr) pool = std::make_unique<ThreadPool>(threads);
  return pool.get();
}

// The array as the ABI wants it: C order, 16-byte aligned.
py::array Dense(const py::array& array, const std::string& what) {
  DTypeOrThrow(array.dtype(), what);
  py::array dense = py::array::ensure(array, py::array::c_style);
  if (!dense) throw py::error_already_set();
  if (reinterpret_cast<uintptr_t>(dense.data()) % 16 == 0) return dense;
  return dense.attr("copy")().cast<py::array>();  // a slice of an array
}

py::array ToNumpy(StandaloneOutput& output, const py::dtype& dtype,
                  const std::vector<py::array>& inputs) {
  const std::vector<py::ssize_t> dims(output.dims.begin(), output.dims.end());
  if (output.input >= 0) return inputs[output.input].attr("reshape")(py::tuple(py::cast(dims)));
  auto owner = std::make_unique<AlignedBuffer>(std::move(output.buffer));
  py::capsule capsule(owner.get(), [](void* p) { delete static_cast<AlignedBuffer*>(p); });
  return py::array(dtype, dims, owner.release()->data(), capsule);
}

// An object array of bytes as a tensor of strings. The bytes are not copied.
class Strings {
 public:
  explicit Strings(const py::array& array) : array_(py::array::ensure(array, py::array::c_style)) {
    PyObject* const* objects = static_cast<PyObject* const*>(array_.data());
    strings_.resize(array_.size());
    for (py::ssize_t i = 0; i < array_.size(); ++i) {
      char* data;
      Py_ssize_t size;
      if (PyBytes_AsStringAndSize(objects[i], &data, &size) != 0) throw py::error_already_set();
      unsigned char* raw = strings_[i].raw;
      const uint64_t view = static_cast<uint64_t>(size) << 2 | 3;
      std::memcpy(raw, &view, sizeof(view));
      std::memcpy(raw + 8, &data, sizeof(data));
    }
  }
  const void* data() const { return strings_.data(); }

 private:
  py::array array_;
  std::vector<blade_lookup::TString> strings_;
};

// Arrays as the ABI has them: strings are object arrays of bytes.
class Inputs {
 public:
  explicit Inputs(const std::vector<py::array>& arrays) {
    strings_.reserve(arrays.size());
    dims_.reserve(arrays.size());
    for (const py::array& array : arrays) {
      dims_.emplace_back(array.shape(), array.shape() + array.ndim());
      BladeTensor tensor = {nullptr, dims_.back().data(), static_cast<int>(array.ndim()), 0};
      if (array.dtype().kind() == 'O') {
        tensor.data = const_cast<void*>(strings_.emplace_back(array).data());
        tensor.dtype = BLADE_STRING;
        arrays_.push_back(array);
      } else {
        arrays_.push_back(Dense(array, "input " + std::to_string(tensors_.size())));
        tensor.data = const_cast<void*>(arrays_.back().data());
        tensor.dtype = DTypeOf(array.dtype());
      }
      tensors_.push_back(tensor);
    }
  }

  const std::vector<BladeTensor>& tensors() const { return tensors_; }
  const std::vector<py::array>& arrays() const { return arrays_; }

 private:
  std::vector<py::array> arrays_;
  std::vector<Strings> strings_;
  std::vector<std::vector<BladeInt>> dims_;
  std::vector<BladeTensor> tensors_;
};

class PyExecutable {
 public:
  explicit PyExecutable(const py::bytes& container) {
    std::string error;
    executable_ = Executable::Load(std::string_view(container), &error);
    if (executable_ == nullptr) throw Refused(error);
    packed_ = std::make_unique<PackedConstants>(executable_->n_inputs());
  }

  const Executable& get() const { return *executable_; }

  std::vector<std::string> refusals() const {
    std::vector<std::string> refusals;
    for (int i = 1; i <= executable_->n_refusals(); ++i) {
      refusals.emplace_back(executable_->Reason(i));
    }
    return refusals;
  }

  std::vector<py::array> Run(const std::vector<py::array>& arrays,
                             const std::vector<py::dtype>& output_dtypes, int threads,
                             const std::vector<int>& constant_inputs) {
    CheckCount("inputs", arrays.size(), executable_->n_inputs());
    CheckCount("output_dtypes", output_dtypes.size(), executable_->n_outputs());
    const Inputs inputs(arrays);
    for (const int index : constant_inputs) {
      if (index < 0 || index >= executable_->n_inputs()) {
        throw py::index_error("constant_inputs: there is no input " + std::to_string(index));
      }
      // What is packed is known by its address, which must not be given to another array.
      owners_.emplace(inputs.arrays()[index].data(), inputs.arrays()[index]);
    }
    std::vector<int> dtypes;
    for (size_t i = 0; i < output_dtypes.size(); ++i) {
      dtypes.push_back(DTypeOrThrow(output_dtypes[i], "output " + std::to_string(i)));
    }

    StandaloneRun run(*executable_, dtypes, PoolOf(threads));
    run.UseConstants(constant_inputs, packed_.get());
    int status;
    {
      py::gil_scoped_release release;
      status = run.Execute(inputs.tensors());
    }
    if (status == BLADE_OUT_OF_MEMORY) throw std::bad_alloc();
    if (status > 0) throw Refused(executable_->Reason(status));
    if (status != BLADE_OK) throw std::runtime_error(executable_->Reason(status));
    std::vector<py::array> outputs;
    for (size_t i = 0; i < output_dtypes.size(); ++i) {
      outputs.push_back(ToNumpy(run.outputs()[i], output_dtypes[i], inputs.arrays()));
    }
    return outputs;
  }

 private:
  void CheckCount(const char* what, size_t found, int wanted) const {
    if (found == static_cast<size_t>(wanted)) return;
    throw py::value_error(std::string(executable_->name()) + ": " + what + " has " +
                          std::to_string(found) + " entries, should have " +
                          std::to_string(wanted));
  }

  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<PackedConstants> packed_;
  std::map<const void*, py::array> owners_;  // of packed constants
};

class PyLookup {
 public:
  explicit PyLookup(const std::string& text) {
    std::string error;
    lookup_ = Lookup::Parse(text, &error);
    if (lookup_ == nullptr) throw Refused(error);
  }

  // The outputs, and how often rows of a stream were found to be the same.
  std::pair<std::vector<py::array>, BladeInt> Run(const std::vector<py::array>& arrays, int threads,
                                                  bool find_repeats) const {
    if (arrays.size() < static_cast<size_t>(lookup_->n_inputs())) {
      throw py::value_error("the lookup has " + std::to_string(lookup_->n_inputs()) + " inputs");
    }
    const Inputs inputs(arrays);
    const std::vector<int> dtypes(lookup_->n_outputs(), BLADE_F32);
    StandaloneRun run(
        [&](const BladeHost& host, void* ctx, const BladeTensor* tensors) {
          return lookup_->Run(host, ctx, tensors, find_repeats);
        },
        static_cast<int>(arrays.size()), dtypes, PoolOf(threads));
    int status;
    {
      py::gil_scoped_release release;
      status = run.Execute(inputs.tensors());
    }
    if (status == BLADE_OUT_OF_MEMORY) throw std::bad_alloc();
    if (status > 0) throw Refused(lookup_->Reason(status));
    if (status != BLADE_OK) throw std::runtime_error(lookup_->Reason(status));
    std::vector<py::array> outputs;
    for (StandaloneOutput& output : run.outputs()) {
      outputs.push_back(ToNumpy(output, py::dtype::of<float>(), inputs.arrays()));
    }
    return {std::move(outputs), run.repeated_rows()};
  }

 private:
  std::shared_ptr<const Lookup> lookup_;
};

void ParallelForOnPool(void* ctx, BladeInt total, double cost_cycles, BladeBody body,
                       const void* args) {
  auto* pool = static_cast<ThreadPool*>(ctx);
  if (pool == nullptr) return body(args, 0, total);
  pool->ParallelFor(total, BlockSize(total, cost_cycles, pool->threads()), body, args);
}

// The product of the last two dims; leading dims are equal, or `b` has none.
py::array Gemm(const py::array& a_in, const py::array& b_in, bool transpose_a, bool transpose_b,
               const std::optional<py::array>& bias_in, bool relu, int threads, bool constant_b) {
  const py::array a = Dense(a_in, "a"), b = Dense(b_in, "b");
  const py::ssize_t rank = a.ndim();
  const bool one_b = b.ndim() == 2;
  if (rank < 2 || (!one_b && b.ndim() != rank)) {
    throw py::value_error("a and b need two dims and equal leading dims, or none for b");
  }
  BladeGemm gemm{};
  gemm.dtype = DTypeOf(a.dtype());
  if (gemm.dtype != DTypeOf(b.dtype()) || (gemm.dtype != BLADE_F32 && gemm.dtype != BLADE_F64)) {
    throw py::type_error("a and b must both be float32 or float64");
  }
  gemm.scale = 1;
  gemm.batch = 1;
  std::vector<py::ssize_t> dims(a.shape(), a.shape() + rank - 2);
  for (py::ssize_t i = 0; i + 2 < rank; ++i) {
    if (!one_b && a.shape(i) != b.shape(i)) throw py::value_error("leading dims differ");
    gemm.batch *= a.shape(i);
  }
  const BladeInt a_rows = a.shape(rank - 2), b_rows = b.shape(b.ndim() - 2);
  gemm.lda = a.shape(rank - 1);
  gemm.ldb = b.shape(b.ndim() - 1);
  gemm.transpose_a = transpose_a;
  gemm.transpose_b = transpose_b;
  gemm.m = transpose_a ? gemm.lda : a_rows;
  gemm.k = transpose_a ? a_rows : gemm.lda;
  gemm.n = transpose_b ? b_rows : gemm.ldb;
  if (gemm.k != (transpose_b ? gemm.ldb : b_rows)) throw py::value_error("inner dims differ");
  dims.push_back(gemm.m);
  dims.push_back(gemm.n);
  py::array c(a.dtype(), dims), bias;
  gemm.a = a.data();
  gemm.a_stride = a_rows * gemm.lda;
  gemm.b = b.data();
  gemm.b_stride = one_b ? 0 : b_rows * gemm.ldb;
  gemm.c = c.mutable_data();
  gemm.ldc = gemm.n;
  gemm.c_stride = gemm.m * gemm.n;
  gemm.b_constant_input = -1;
  if (bias_in) {
    bias = Dense(*bias_in, "bias");
    if (DTypeOf(bias.dtype()) != gemm.dtype || bias.size() != gemm.n) {
      throw py::value_error("bias needs an element of a's dtype for each column");
    }
    gemm.bias = bias.data();
  }
  gemm.activation = relu ? BLADE_ACTIVATION_RELU : BLADE_ACTIVATION_NONE;

  const GemmHost host = {ParallelForOnPool, PoolOf(threads), threads, nullptr};
  py::gil_scoped_release release;
  const auto packed = constant_b ? PackB(gemm) : nullptr;
  RunGemm(gemm, host, packed.get());
  return c;
}

// One number for each spatial dim; those that there aren't, before them, get `missing`.
void SetDims(const std::vector<BladeInt>& values, BladeInt missing, const char* name,
             py::ssize_t spatial, BladeInt (&dims)[3]) {
  if (static_cast<py::ssize_t>(values.size()) != spatial) {
    throw py::value_error(std::string(name) + " needs a number for each spatial dim");
  }
  for (py::ssize_t d = 0; d < 3; ++d) dims[d] = d < 3 - spatial ? missing : values[d + spatial - 3];
}

// x [batch, spatial..., groups * channels], filter [window..., channels, groups * filters].
py::array Conv(const py::array& x_in, const py::array& filter_in,
               const std::vector<BladeInt>& strides, const std::vector<BladeInt>& dilations,
               const std::vector<BladeInt>& low, const std::vector<BladeInt>& sizes,
               const std::optional<py::array>& bias_in, bool relu, int threads,
               bool constant_filter) {
  const py::array x = Dense(x_in, "x"), filter = Dense(filter_in, "filter");
  const py::ssize_t rank = x.ndim(), spatial = rank - 2;
  if (spatial < 1 || spatial > 3 || filter.ndim() != rank) {
    throw py::value_error("x and filter need one to three spatial dims");
  }
  BladeConv conv{};
  conv.dtype = DTypeOf(x.dtype());
  if (conv.dtype != DTypeOf(filter.dtype()) ||
      (conv.dtype != BLADE_F32 && conv.dtype != BLADE_F64)) {
    throw py::type_error("x and filter must both be float32 or float64");
  }
  conv.batch = x.shape(0);
  conv.channels = filter.shape(rank - 2);
  if (conv.channels <= 0 || x.shape(rank - 1) % conv.channels != 0) {
    throw py::value_error("x's channels are no multiple of the filter's");
  }
  conv.groups = x.shape(rank - 1) / conv.channels;
  if (conv.groups == 0 || filter.shape(rank - 1) % conv.groups != 0) {
    throw py::value_error("the filters can't be shared out to the groups");
  }
  conv.filters = filter.shape(rank - 1) / conv.groups;
  const std::vector<BladeInt> in(x.shape() + 1, x.shape() + rank - 1);
  const std::vector<BladeInt> window(filter.shape(), filter.shape() + spatial);
  SetDims(in, 1, "x", spatial, conv.in);
  SetDims(window, 1, "filter", spatial, conv.window);
  SetDims(sizes, 1, "sizes", spatial, conv.out);
  SetDims(strides, 1, "strides", spatial, conv.stride);
  SetDims(dilations, 1, "dilations", spatial, conv.dilation);
  SetDims(low, 0, "low", spatial, conv.low);
  std::vector<py::ssize_t> dims{x.shape(0)};
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  dims.push_back(filter.shape(rank - 1));
  py::array y(x.dtype(), dims), bias;
  conv.x = x.data();
  conv.filter = filter.data();
  conv.y = y.mutable_data();
  conv.filter_constant_input = -1;
  if (bias_in) {
    bias = Dense(*bias_in, "bias");
    if (DTypeOf(bias.dtype()) != conv.dtype || bias.size() != filter.shape(rank - 1)) {
      throw py::value_error("bias needs an element of x's dtype for each filter");
    }
    conv.bias = bias.data();
  }
  conv.activation = relu ? BLADE_ACTIVATION_RELU : BLADE_ACTIVATION_NONE;

  const GemmHost host = {ParallelForOnPool, PoolOf(threads), threads, nullptr};
  py::gil_scoped_release release;
  const auto packed = constant_filter && UsesPackedFilter(conv) ? PackB(FilterAsB(conv)) : nullptr;
  if (RunConv(conv, host, packed.get()) != BLADE_OK) throw std::bad_alloc();
  return y;
}

// x [rows, length]; inverse: [2, rows, length / 2 + 1].
py::array Fft(const py::array& x_in, bool inverse, BladeInt length, int threads) {
  const py::array x = Dense(x_in, "x");
  const py::ssize_t rank = inverse ? 3 : 2;
  if (DTypeOf(x.dtype()) != BLADE_F32 || x.ndim() != rank || length < 1 ||
      x.shape(rank - 1) != (inverse ? length / 2 + 1 : length) || (inverse && x.shape(0) != 2)) {
    throw py::value_error("x doesn't have the transform's dtype or shape");
  }
  const BladeInt rows = x.shape(rank - 2);
  std::vector<py::ssize_t> dims = {2, rows, length / 2 + 1};
  if (inverse) dims = {rows, length};
  py::array_t<float> y(dims);
  const float* const data = static_cast<const float*>(x.data());
  const BladeFft fft = {
      BLADE_F32, inverse, rows, length, data, data + rows * (length / 2 + 1), y.mutable_data()};
  const GemmHost host = {ParallelForOnPool, PoolOf(threads), threads, nullptr};
  py::gil_scoped_release release;
  if (RunFft(fft, host) != BLADE_OK) throw std::runtime_error("no Fourier transforms here");
  return y;
}

py::bytes Sha256Bytes(const py::bytes& data) {
  const Sha256Digest digest = Sha256(std::string_view(data));
  return py::bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace

PYBIND11_MODULE(_runtime, m) {
  m.doc() = "Runs compiled clusters and matrix products without TensorFlow.";
  py::register_exception<Refused>(m, "Refused", PyExc_RuntimeError).doc() =
      "The runtime can't load an executable, or it doesn't cover these inputs.";

  py::class_<PyExecutable>(m, "Executable", "A compiled cluster, mapped and ready to run.")
      .def(py::init<const py::bytes&>(), py::arg("container"),
           "Checks and maps a container. Raises Refused with the reason when that can't be done.")
      .def_property_readonly("name", [](const PyExecutable& e) { return e.get().name(); })
      .def_property_readonly("n_inputs", [](const PyExecutable& e) { return e.get().n_inputs(); })
      .def_property_readonly("n_outputs", [](const PyExecutable& e) { return e.get().n_outputs(); })
      .def_property_readonly(
          "isa", [](const PyExecutable& e) { return e.get().isa(); },
          "The instruction set level of the variant that runs here.")
      .def_property_readonly("refusals", &PyExecutable::refusals)
      .def("run", &PyExecutable::Run, py::arg("inputs"), py::arg("output_dtypes"),
           py::arg("threads") = 1, py::arg("constant_inputs") = std::vector<int>(),
           "Runs on numpy arrays and returns numpy arrays of `output_dtypes` (executables don't\n"
           "declare them). `constant_inputs` are inputs that are the same array, unchanged, in\n"
           "every call: products with them pack them once. Raises Refused when the generated code\n"
           "doesn't cover these inputs, MemoryError when memory runs out.");

  py::class_<PyLookup>(m, "Lookup", "A fused lookup, interpreted.")
      .def(py::init<const std::string&>(), py::arg("text"),
           "Reads what tf_blade.feature_column.text.encode wrote. Raises Refused with the reason\n"
           "when that can't be done.")
      .def(
          "run", &PyLookup::Run, py::arg("inputs"), py::arg("threads") = 1,
          py::arg("find_repeats") = true,
          "Runs on numpy arrays, strings being object arrays of bytes. Returns the outputs and "
          "how\n"
          "often a stream's rows were found to be all the same, so that one was computed for all;\n"
          "`find_repeats` false doesn't look. Raises Refused for inputs that the lookup doesn't\n"
          "cover, naming the column.");

  m.def(
      "gemm", &Gemm, py::arg("a"), py::arg("b"), py::arg("transpose_a") = false,
      py::arg("transpose_b") = false, py::arg("bias") = py::none(), py::arg("relu") = false,
      py::arg("threads") = 1, py::arg("constant_b") = false,
      "[..., m, k] x [..., k, n] or [k, n] -> [..., m, n] for float32 and float64, plus bias [n],\n"
      "then relu. `constant_b` packs b first, as hosts do for weights.");
  m.def("conv", &Conv, py::arg("x"), py::arg("filter"), py::arg("strides"), py::arg("dilations"),
        py::arg("low"), py::arg("sizes"), py::arg("bias") = py::none(), py::arg("relu") = false,
        py::arg("threads") = 1, py::arg("constant_filter") = false,
        "x [batch, spatial..., groups * channels] with filter [window..., channels, groups *\n"
        "filters] -> [batch, sizes..., groups * filters] for float32 and float64, plus bias, then\n"
        "relu. Windows begin `low` before x and step by `strides`; outside of x are zeros.");
  m.def(
      "fft", &Fft, py::arg("x"), py::arg("inverse"), py::arg("length"), py::arg("threads") = 1,
      "[..., length] -> [..., length / 2 + 1, 2] for float32: the numbers of a spectrum, real and\n"
      "imaginary; the other way round when `inverse`.");
  m.def("cpu_features", &SupportedIsas, "Instruction set levels this machine runs, best first.");
  m.def("sha256", &Sha256Bytes, py::arg("data"), "The SHA-256 digest, 32 bytes.");
  m.attr("ABI_VERSION") = BLADE_ABI_VERSION;
}

}  // namespace blade
