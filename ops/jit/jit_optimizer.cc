#include "jit_optimizer.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph_queue.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"
#include "tensorflow/core/platform/logging.h"

namespace blade {
namespace {

using tensorflow::FunctionDef;
using tensorflow::FunctionDefLibrary;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::grappler::GrapplerItem;

constexpr char kDeviceType[] = "CPU";
// Grappler runs every optimizer twice. Nodes that must stay get this when a graph has been seen.
constexpr char kSeen[] = "_tf_blade_jit";

bool WasSeen(const GraphDef& graph) {
  for (const NodeDef& node : graph.node()) {
    if (node.attr().contains(kSeen)) return true;
  }
  return false;
}

void MarkAsSeen(const GrapplerItem& item, GraphDef* graph) {
  const std::unordered_set<std::string> kept = item.NodesToPreserve();
  for (NodeDef& node : *graph->mutable_node()) {
    if (kept.count(node.name()) > 0) (*node.mutable_attr())[kSeen].set_b(true);
  }
}

// Functions are named after their content: one that is there already is the same.
void AddFunctions(const FunctionDefLibrary& from, FunctionDefLibrary* to) {
  std::unordered_set<std::string> known;
  for (const FunctionDef& function : to->function()) known.insert(function.signature().name());
  for (const FunctionDef& function : from.function()) {
    if (known.insert(function.signature().name()).second) *to->add_function() = function;
  }
}

// What Python must know besides the graph, in lines "WORD\tNAME".
std::string Facts(const GrapplerItem& item) {
  std::string facts = absl::StrCat("id\t", item.id, "\n");
  for (const std::string& name : item.fetch) absl::StrAppend(&facts, "fetch\t", name, "\n");
  for (const auto& [name, tensor] : item.feed) absl::StrAppend(&facts, "feed\t", name, "\n");
  for (const std::string& name : item.NodesToPreserve()) {
    absl::StrAppend(&facts, "keep\t", name, "\n");
  }
  return facts;
}

class JitOptimizer : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  std::string name() const override { return "tf_blade_jit"; }
  bool UsesFunctionLibrary() const override { return true; }
  absl::Status Init(const tensorflow::RewriterConfig_CustomGraphOptimizer*) override {
    return absl::OkStatus();
  }

  absl::Status Optimize(tensorflow::grappler::Cluster*, const GrapplerItem& item,
                        GraphDef* optimized) override {
    // To Grappler, Aborted says that nothing was changed.
    GraphQueue& queue = GraphQueue::Get();
    if (!queue.accepting()) return absl::AbortedError("tf-blade is off");
    if (!item.optimization_options().allow_non_differentiable_rewrites) {
      return absl::AbortedError("compiled ops have no gradient");
    }
    if (WasSeen(item.graph)) return absl::AbortedError("seen before");
    if (queue.MustNotAsk()) return absl::AbortedError("the caller holds Python's global lock");
    GraphRequest request;
    request.facts = Facts(item);
    if (!item.graph.SerializeToString(&request.graph)) {
      return absl::AbortedError("the graph is too large for one message");
    }
    std::string answer;
    if (!queue.Ask(std::move(request), &answer)) return absl::AbortedError("no answer");
    *optimized = item.graph;
    if (!answer.empty()) {
      GraphDef edited;
      if (!edited.ParseFromString(answer)) return absl::AbortedError("no readable answer");
      // New functions come with the edited nodes; the others are still there.
      optimized->mutable_node()->Swap(edited.mutable_node());
      AddFunctions(edited.library(), optimized->mutable_library());
    }
    MarkAsSeen(item, optimized);
    return absl::OkStatus();
  }
};

}  // namespace

bool RegisterJitOptimizer() {
  static std::mutex mutex;
  static bool registered = false;
  std::lock_guard<std::mutex> lock(mutex);
  if (registered) return true;
  using tensorflow::grappler::PluginGraphOptimizerRegistry;
  // A second one for the same device type would end the process.
  if (!PluginGraphOptimizerRegistry::CreateOptimizers({kDeviceType}).empty()) return false;
  tensorflow::grappler::ConfigList all_on(/*disable_model_pruning=*/false, {});
  PluginGraphOptimizerRegistry::RegisterPluginOptimizerOrDie([] { return new JitOptimizer; },
                                                             kDeviceType, all_on);
  registered = true;
  return true;
}

}  // namespace blade
