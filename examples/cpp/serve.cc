// Serves an optimised SavedModel from several threads with TensorFlow's C API: no Python.
//
//   serve OP_LIBRARY MODEL [--threads 8] [--calls 200] [--batch 16] [--signature serving_default]
//
// Every thread asks the same questions of made-up inputs and compares each answer, byte by byte,
// with the first one that was given. Exit code 0: all were equal; 1: some were not; 2: an error.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"
#include "tensorflow/core/protobuf/meta_graph.pb.h"

namespace {

struct Options {
  std::string library, model, signature = "serving_default";
  int threads = 8, calls = 200, batch = 16;
};

// A status that throws what TensorFlow says.
class Status {
 public:
  ~Status() { TF_DeleteStatus(status_); }
  TF_Status* get() { return status_; }
  void Check(const std::string& doing) {
    if (TF_GetCode(status_) != TF_OK) throw std::runtime_error(doing + ": " + TF_Message(status_));
  }

 private:
  TF_Status* status_ = TF_NewStatus();
};

using Tensor = std::unique_ptr<TF_Tensor, decltype(&TF_DeleteTensor)>;

Tensor Own(TF_Tensor* tensor) { return Tensor(tensor, TF_DeleteTensor); }

// The same request for the same seed. Unknown dims are the batch size; numbers are small.
Tensor MakeInput(const tensorflow::TensorInfo& info, int batch, unsigned seed) {
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (const auto& dim : info.tensor_shape().dim()) {
    dims.push_back(dim.size() < 0 ? batch : dim.size());
    count *= dims.back();
  }
  const auto dtype = static_cast<TF_DataType>(info.dtype());
  const size_t size = dtype == TF_STRING ? sizeof(TF_TString) : TF_DataTypeSize(dtype);
  Tensor tensor = Own(TF_AllocateTensor(dtype, dims.data(), dims.size(), count * size));
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const unsigned number = seed >> 24;  // 0 to 255
    void* at = static_cast<char*>(TF_TensorData(tensor.get())) + i * size;
    switch (dtype) {
      case TF_FLOAT:
        *static_cast<float*>(at) = number / 128.0f - 1.0f;
        break;
      case TF_DOUBLE:
        *static_cast<double*>(at) = number / 128.0 - 1.0;
        break;
      case TF_INT32:
        *static_cast<int32_t*>(at) = number % 8;
        break;
      case TF_INT64:
        *static_cast<int64_t*>(at) = number % 8;
        break;
      case TF_BOOL:
        *static_cast<bool*>(at) = number % 2;
        break;
      case TF_STRING: {
        const std::string text = "word" + std::to_string(number % 8);
        TF_TString_Init(static_cast<TF_TString*>(at));
        TF_TString_Copy(static_cast<TF_TString*>(at), text.data(), text.size());
        break;
      }
      default:
        throw std::runtime_error("no input of dtype " + tensorflow::DataType_Name(info.dtype()) +
                                 " is made up here: add it to MakeInput");
    }
  }
  return tensor;
}

// A tensor's shape and elements, to be compared.
std::string Bytes(TF_Tensor* tensor) {
  std::string bytes;
  int64_t count = 1;
  for (int i = 0; i < TF_NumDims(tensor); ++i) {
    count *= TF_Dim(tensor, i);
    bytes += std::to_string(TF_Dim(tensor, i)) + ",";
  }
  if (TF_TensorType(tensor) != TF_STRING) {
    return bytes.append(static_cast<char*>(TF_TensorData(tensor)), TF_TensorByteSize(tensor));
  }
  const auto* texts = static_cast<const TF_TString*>(TF_TensorData(tensor));
  for (int64_t i = 0; i < count; ++i) {
    bytes.append(TF_TString_GetDataPointer(&texts[i]), TF_TString_GetSize(&texts[i])).push_back(0);
  }
  return bytes;
}

class Model {
 public:
  explicit Model(const Options& options) {
    Status status;
    std::unique_ptr<TF_SessionOptions, decltype(&TF_DeleteSessionOptions)> session_options(
        TF_NewSessionOptions(), TF_DeleteSessionOptions);
    std::unique_ptr<TF_Buffer, decltype(&TF_DeleteBuffer)> proto(TF_NewBuffer(), TF_DeleteBuffer);
    const char* tags[] = {"serve"};
    session_ = TF_LoadSessionFromSavedModel(session_options.get(), nullptr, options.model.c_str(),
                                            tags, 1, graph_, proto.get(), status.get());
    status.Check("can't load " + options.model);
    tensorflow::MetaGraphDef meta;
    if (!meta.ParseFromArray(proto->data, static_cast<int>(proto->length))) {
      throw std::runtime_error(options.model + " holds no MetaGraph");
    }
    const auto found = meta.signature_def().find(options.signature);
    if (found == meta.signature_def().end()) {
      std::string known;
      for (const auto& [name, unused] : meta.signature_def()) {
        if (name.rfind("__", 0) != 0) known += " " + name;  // not the one that initialises
      }
      throw std::runtime_error("no signature " + options.signature + "; there are" + known);
    }
    signature_ = found->second;
    for (const auto& [name, info] : signature_.inputs()) inputs_.push_back(Find(info));
    for (const auto& [name, info] : signature_.outputs()) outputs_.push_back(Find(info));
  }

  ~Model() {
    Status status;
    if (session_ != nullptr) TF_DeleteSession(session_, status.get());
    TF_DeleteGraph(graph_);
  }

  std::vector<Tensor> MakeInputs(int batch, unsigned seed) const {
    std::vector<Tensor> tensors;
    for (const auto& [name, info] : signature_.inputs()) {
      tensors.push_back(MakeInput(info, batch, seed++));
    }
    return tensors;
  }

  // One request. A session may be run by any number of threads at once.
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs) const {
    std::vector<TF_Tensor*> given, made(outputs_.size());
    for (const Tensor& tensor : inputs) given.push_back(tensor.get());
    Status status;
    TF_SessionRun(session_, nullptr, inputs_.data(), given.data(), given.size(), outputs_.data(),
                  made.data(), made.size(), nullptr, 0, nullptr, status.get());
    status.Check("the model reports an error");
    std::vector<Tensor> results;
    for (TF_Tensor* tensor : made) results.push_back(Own(tensor));
    return results;
  }

 private:
  TF_Output Find(const tensorflow::TensorInfo& info) const {
    const std::string& name = info.name();  // "operation:index"
    const size_t colon = name.rfind(':');
    TF_Operation* operation = TF_GraphOperationByName(graph_, name.substr(0, colon).c_str());
    if (operation == nullptr) throw std::runtime_error("the graph has no tensor " + name);
    return {operation, std::atoi(name.c_str() + colon + 1)};
  }

  TF_Graph* graph_ = TF_NewGraph();
  TF_Session* session_ = nullptr;
  tensorflow::SignatureDef signature_;
  std::vector<TF_Output> inputs_, outputs_;
};

std::vector<std::string> Answer(const Model& model, const std::vector<Tensor>& request) {
  std::vector<std::string> bytes;
  for (const Tensor& tensor : model.Run(request)) bytes.push_back(Bytes(tensor.get()));
  return bytes;
}

Options Parse(int argc, char** argv) {
  Options options;
  std::vector<std::string> places;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      places.push_back(word);
      continue;
    }
    if (i + 1 == argc) throw std::runtime_error(word + " needs a value");
    const char* value = argv[++i];
    if (word == "--signature") {
      options.signature = value;
      continue;
    }
    int* number = word == "--threads" ? &options.threads
                  : word == "--calls" ? &options.calls
                  : word == "--batch" ? &options.batch
                                      : nullptr;
    if (number == nullptr) throw std::runtime_error("unknown option " + word);
    *number = std::atoi(value);
    if (*number < 1) throw std::runtime_error(word + " must be a number of 1 or more");
  }
  if (places.size() != 2) throw std::runtime_error("usage: serve OP_LIBRARY MODEL [options]");
  options.library = places[0];
  options.model = places[1];
  return options;
}

int Serve(const Options& options) {
  // First of all: a graph with our op can only be loaded where the op is known.
  Status status;
  TF_Library* library = TF_LoadLibrary(options.library.c_str(), status.get());
  status.Check("can't load " + options.library);
  const Model model(options);

  // Requests of several batch sizes, and what the model answers to each when asked alone.
  std::vector<std::vector<Tensor>> requests;
  std::vector<std::vector<std::string>> answers;
  for (int batch : {1, 3, options.batch}) {
    requests.push_back(model.MakeInputs(batch, batch));
    answers.push_back(Answer(model, requests.back()));
  }
  using Clock = std::chrono::steady_clock;
  std::atomic<int> different{0};
  std::vector<std::vector<double>> times(options.threads);
  std::vector<std::string> errors(options.threads);
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (int thread = 0; thread < options.threads; ++thread) {
    threads.emplace_back([&, thread] {
      try {
        for (int call = 0; call < options.calls; ++call) {
          const size_t which = (call + thread) % requests.size();
          const auto begin = Clock::now();
          const std::vector<Tensor> results = model.Run(requests[which]);
          times[thread].push_back(std::chrono::duration<double>(Clock::now() - begin).count());
          for (size_t i = 0; i < results.size(); ++i) {
            if (Bytes(results[i].get()) != answers[which][i]) ++different;
          }
        }
      } catch (const std::exception& error) {
        errors[thread] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (const std::string& error : errors) {
    if (!error.empty()) throw std::runtime_error(error);
  }
  std::vector<double> all;
  for (const auto& part : times) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  std::printf("%d threads, %zu calls: median %.3f ms, 99th percentile %.3f ms, %.0f calls/s\n",
              options.threads, all.size(), all[all.size() / 2] * 1e3,
              all[all.size() * 99 / 100] * 1e3, all.size() / seconds);
  std::printf("answers that differ between threads: %d\n", different.load());
  TF_DeleteLibraryHandle(library);
  return different == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Serve(Parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "serve: %s\n", error.what());
    return 2;
  }
}
