#include "call_inputs.h"

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/lookup_interface.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace blade {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;
using tensorflow::core::RefCountPtr;
using tensorflow::lookup::LookupInterface;

absl::Status CallInputs::Init(OpKernelConstruction* ctx) {
  std::vector<int64_t> kinds, indices;
  std::vector<tensorflow::tstring> constants;
  TF_RETURN_IF_ERROR(ctx->GetAttr(kBoundTypes, &types_));
  TF_RETURN_IF_ERROR(ctx->GetAttr(kBoundKinds, &kinds));
  TF_RETURN_IF_ERROR(ctx->GetAttr(kBoundIndices, &indices));
  TF_RETURN_IF_ERROR(ctx->GetAttr(kBoundConstants, &constants));
  TF_RETURN_IF_ERROR(ctx->GetAttr(kBoundContainers, &containers_));
  TF_RETURN_IF_ERROR(ctx->GetAttr(kBoundNames, &names_));
  if (kinds.empty()) {
    types_.assign(ctx->input_types().begin(), ctx->input_types().end());
    for (int i = 0; i < ctx->num_inputs(); ++i) inputs_.push_back({kEdge, i});
    return absl::OkStatus();
  }
  bool good = types_.size() == kinds.size() && types_.size() == indices.size() &&
              containers_.size() == names_.size();
  for (const tensorflow::tstring& constant : constants) {
    tensorflow::TensorProto proto;
    constants_.emplace_back();
    good &= proto.ParseFromArray(constant.data(), static_cast<int>(constant.size())) &&
            constants_.back().FromProto(proto);
  }
  const auto names = static_cast<int64_t>(names_.size());
  const int64_t limits[] = {ctx->num_inputs(), INT32_MAX, static_cast<int64_t>(constants_.size()),
                            names, names};
  for (size_t i = 0; good && i < kinds.size(); ++i) {
    good =
        kinds[i] >= kEdge && kinds[i] <= kTable && indices[i] >= 0 && indices[i] < limits[kinds[i]];
    inputs_.push_back({static_cast<InputKind>(kinds[i]), static_cast<int>(indices[i])});
  }
  if (!good) {
    return absl::InvalidArgumentError(
        absl::StrCat(ctx->def().name(), ": the attrs bound_* don't fit each other"));
  }
  for (std::string& container : containers_) {
    if (container.empty()) container = ctx->resource_manager()->default_container();
  }
  for (const Input& input : inputs_) {
    if (input.kind != kVariable) continue;
    variables_.emplace_back(&containers_[input.index], &names_[input.index]);
  }
  return absl::OkStatus();
}

const Tensor* CallInputs::At(OpKernelContext* ctx, int i) const {
  const int index = inputs_[i].index;
  const Tensor* found = nullptr;
  switch (inputs_[i].kind) {
    case kEdge:
      return &ctx->input(index);
    case kConstant:
      return &constants_[index];
    case kArgument:
      if (ctx->call_frame() != nullptr && ctx->call_frame()->GetArg(index, &found).ok()) {
        return found;
      }
      return nullptr;
    default:
      return nullptr;
  }
}

absl::StatusOr<Tensor> CallInputs::Value(OpKernelContext* ctx, int i) const {
  const auto [kind, index] = inputs_[i];
  if (kind == kVariable || kind == kTable) {
    Tensor tensor(tensorflow::DT_RESOURCE, tensorflow::TensorShape({}));
    auto& handle = tensor.scalar<tensorflow::ResourceHandle>()();
    if (kind == kVariable) {
      handle = tensorflow::MakeResourceHandle<Var>(ctx, containers_[index], names_[index]);
    } else {
      handle =
          tensorflow::MakeResourceHandle<LookupInterface>(ctx, containers_[index], names_[index]);
      // The node would have made it, and its reader would have complained.
      RefCountPtr<LookupInterface> table;
      if (!tensorflow::LookupResource(ctx, handle, &table).ok()) {
        return absl::FailedPreconditionError("Table not initialized.");
      }
    }
    return tensor;
  }
  const Tensor* found = At(ctx, i);
  if (found == nullptr) {
    return absl::InternalError(absl::StrCat("the call has no argument ", index, ", which ",
                                            ctx->op_kernel().name(), " needs"));
  }
  return *found;
}

absl::Status CallInputs::LookUp(OpKernelContext* ctx, std::vector<RefCountPtr<Var>>* found) const {
  found->resize(variables_.size());
  {
    tensorflow::tf_shared_lock lock(mutex_);
    // Locks and counts of references are taken one after the other: each would wait for memory.
    for (const Known& known : known_) {
      __builtin_prefetch(known.address, 1);
      __builtin_prefetch(static_cast<const char*>(known.address) + 64, 1);
    }
    bool all = known_.size() == found->size();
    for (size_t i = 0; all && i < known_.size(); ++i) {
      (*found)[i] = known_[i].variable.GetNewRef();
      all = (*found)[i] != nullptr;
    }
    if (all) return absl::OkStatus();
  }
  for (auto& variable : *found) variable.reset();
  TF_RETURN_IF_ERROR(ctx->resource_manager()->LookupMany<Var>(variables_, found));
  tensorflow::mutex_lock lock(mutex_);
  known_.clear();
  for (const auto& variable : *found) {
    known_.push_back({tensorflow::core::WeakPtr<Var>(variable.get()), variable.get()});
  }
  return absl::OkStatus();
}

}  // namespace blade
