// Takes the nodes out of a session's graph that only bring a compiled op its inputs.
//
// TensorFlow's executor spends about 0.3 µs on each node, and a recommendation model has hundreds
// of inputs and tables: bringing them took most of the time of a small request. A compiled op can
// find an argument in the call's frame, and a variable by its name, by itself.
//
// This runs when a session makes its graph for a signature, after placement and when feeds have
// become arguments. Graphs of functions are left alone: their arguments are numbered anew when they
// are partitioned.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "call_inputs.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace blade {
namespace {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeDef;

bool IsCompiled(const Node& node) {
  if (node.type_string() != "BladeCluster" && node.type_string() != "BladeLookup") return false;
  std::vector<int64_t> kinds;
  if (!tensorflow::GetNodeAttr(node.attrs(), kBoundKinds, &kinds).ok() || !kinds.empty()) {
    return false;
  }
  tensorflow::DeviceNameUtils::ParsedName device;
  return tensorflow::DeviceNameUtils::ParseFullName(node.assigned_device_name(), &device) &&
         device.type == "CPU";
}

// What one input comes from.
struct Source {
  InputKind kind = kEdge;
  int argument = 0;
  const tensorflow::TensorProto* constant = nullptr;
  std::string container, name;
};

bool HasName(const Node& node, Source* source) {
  return tensorflow::GetNodeAttr(node.attrs(), "container", &source->container).ok() &&
         tensorflow::GetNodeAttr(node.attrs(), "shared_name", &source->name).ok() &&
         !source->name.empty() && source->name != tensorflow::ResourceHandle::ANONYMOUS_NAME;
}

// What `node` brings to `reader`.
Source SourceOf(const Node& node, const Node& reader) {
  Source source;
  const std::string& op = node.type_string();
  if (node.IsArg()) {
    if (tensorflow::GetNodeAttr(node.attrs(), "index", &source.argument).ok()) {
      source.kind = kArgument;
    }
  } else if (op == "Const") {
    // One that others need, too, is shared: each would get a copy.
    bool ours = true;
    for (const Edge* edge : node.out_edges()) {
      ours &= edge->dst()->IsSink() || edge->dst() == &reader;
    }
    if (ours && tensorflow::GetNodeAttr(node.attrs(), "value", &source.constant).ok()) {
      source.kind = kConstant;
    }
  } else if (op == "VarHandleOp" || op == "HashTableV2") {
    // Each device has resources of its own.
    if (node.assigned_device_name() == reader.assigned_device_name() && HasName(node, &source)) {
      source.kind = op == "VarHandleOp" ? kVariable : kTable;
    }
  }
  return source;
}

// AddNodeAttr leaves an attr as it is if there is one, and the defaults are there already.
template <class T>
void Replace(const char* attr, const T& value, NodeDef* def) {
  def->mutable_attr()->erase(attr);
  tensorflow::AddNodeAttr(attr, value, def);
}

// Nodes that do nothing but give a value, which is the same whenever they run.
bool OnlyGives(const Node& node) {
  const std::string& op = node.type_string();
  return node.IsArg() || op == "Const" || op == "VarHandleOp" || op == "NoOp";
}

// Removes a node that gives a value nobody reads. What waited for it waits for what it waited for.
void Bypass(Graph* graph, Node* node) {
  std::vector<Node*> before, after;
  for (const Edge* edge : node->in_edges()) before.push_back(edge->src());
  for (const Edge* edge : node->out_edges()) after.push_back(edge->dst());
  graph->RemoveNode(node);
  for (Node* later : after) {
    for (Node* earlier : before) {
      if (!earlier->IsSource() || later->in_edges().empty()) graph->AddControlEdge(earlier, later);
    }
    if (later->in_edges().empty()) graph->AddControlEdge(graph->source_node(), later);
  }
}

bool IsRead(const Node& node) {
  for (const Edge* edge : node.out_edges()) {
    if (!edge->IsControlEdge()) return true;
  }
  return false;
}

// Inlined functions leave nodes behind that only order others: values nobody reads any more, and
// NoOps that wait for nothing.
void RemoveIdleNodes(Graph* graph) {
  for (const bool no_ops : {false, true}) {
    std::vector<Node*> idle;
    for (Node* node : graph->op_nodes()) {
      if (!OnlyGives(*node) || IsRead(*node) || (node->type_string() == "NoOp") != no_ops) continue;
      bool waits = false, needed = false;
      for (const Edge* edge : node->in_edges()) waits |= !edge->src()->IsSource();
      for (const Edge* edge : node->out_edges()) needed |= edge->dst()->IsSink();
      // A NoOp at the end is what the caller runs.
      if (!waits && !(no_ops && needed)) idle.push_back(node);
    }
    for (Node* node : idle) Bypass(graph, node);
  }
}

// The compiled op with as few edges as it can have, in place of `node`.
absl::Status Bind(Graph* graph, Node* node) {
  std::vector<const Edge*> edges;
  TF_RETURN_IF_ERROR(node->input_edges(&edges));
  std::vector<int64_t> kinds, indices;
  std::vector<std::string> constants;
  std::vector<std::string> containers, names;
  std::vector<const Edge*> kept;
  std::vector<Node*> sources;
  tensorflow::DataTypeVector kept_types;
  // One edge stays, or TensorFlow would take the op for a constant and fold it.
  std::vector<Source> all;
  for (const Edge* edge : edges) all.push_back(SourceOf(*edge->src(), *node));
  const auto changes = [](const Source& source) { return source.kind != kConstant; };
  const auto changing = std::find_if(all.begin(), all.end(), changes);
  if (changing != all.end()) changing->kind = kEdge;
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge* edge = edges[i];
    Source& source = all[i];
    kinds.push_back(source.kind);
    switch (source.kind) {
      case kEdge:
        indices.push_back(static_cast<int64_t>(kept.size()));
        kept.push_back(edge);
        kept_types.push_back(node->input_type(edge->dst_input()));
        continue;
      case kArgument:
        indices.push_back(source.argument);
        break;
      case kConstant:
        indices.push_back(static_cast<int64_t>(constants.size()));
        constants.push_back(source.constant->SerializeAsString());
        break;
      case kVariable:
      case kTable:
        indices.push_back(static_cast<int64_t>(names.size()));
        containers.push_back(std::move(source.container));
        names.push_back(std::move(source.name));
        break;
    }
    sources.push_back(edge->src());
  }
  if (sources.empty()) return absl::OkStatus();

  NodeDef def = node->def();
  def.clear_input();
  Replace(kBoundTypes, node->input_types(), &def);
  Replace(kBoundKinds, kinds, &def);
  Replace(kBoundIndices, indices, &def);
  Replace(kBoundConstants, constants, &def);
  Replace(kBoundContainers, containers, &def);
  Replace(kBoundNames, names, &def);
  Replace("Tin", kept_types, &def);
  absl::Status status;
  Node* bound = graph->AddNode(std::move(def), &status);
  TF_RETURN_IF_ERROR(status);
  bound->set_assigned_device_name(node->assigned_device_name());
  for (size_t i = 0; i < kept.size(); ++i) {
    graph->AddEdge(kept[i]->src(), kept[i]->src_output(), bound, static_cast<int>(i));
  }
  for (const Edge* edge : node->in_edges()) {
    if (edge->IsControlEdge()) graph->AddControlEdge(edge->src(), bound);
  }
  // What had to happen before an input has to happen before the op.
  for (const Node* source : sources) {
    for (const Edge* edge : source->in_edges()) {
      if (!edge->src()->IsSource()) graph->AddControlEdge(edge->src(), bound);
    }
  }
  const std::vector<const Edge*> out_edges(node->out_edges().begin(), node->out_edges().end());
  for (const Edge* edge : out_edges) {
    if (edge->IsControlEdge()) {
      graph->AddControlEdge(bound, edge->dst());
    } else {
      graph->AddEdge(bound, edge->src_output(), edge->dst(), edge->dst_input());
    }
  }
  graph->RemoveNode(node);
  if (bound->in_edges().empty()) graph->AddControlEdge(graph->source_node(), bound);

  for (Node* source : sources) {
    if (source == nullptr) continue;
    bool needed = false;
    for (const Edge* edge : source->out_edges()) needed |= !edge->dst()->IsSink();
    if (needed) continue;  // RemoveIdleNodes may still find it to be idle
    // One node can be several inputs.
    for (Node*& other : sources) {
      if (other == source && &other != &source) other = nullptr;
    }
    graph->RemoveNode(source);
  }
  return absl::OkStatus();
}

class BindInputsPass : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.is_function_graph || options.graph == nullptr) return absl::OkStatus();
    Graph* graph = options.graph->get();
    std::vector<Node*> nodes;
    for (Node* node : graph->op_nodes()) {
      if (IsCompiled(*node)) nodes.push_back(node);
    }
    for (Node* node : nodes) {
      const std::string name = node->name();
      // The graph is as it was then, and the model runs, if more slowly.
      const absl::Status status = Bind(graph, node);
      if (!status.ok()) {
        LOG(WARNING) << "tf-blade: '" << name
                     << "' keeps the nodes that bring its inputs: " << status;
      }
    }
    if (!nodes.empty()) RemoveIdleNodes(graph);
    return absl::OkStatus();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 100,
                      BindInputsPass);

}  // namespace
}  // namespace blade
