#include "executable.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "cpu_features.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace blade {
namespace {

constexpr std::string_view kMagic = "TFBLADE1";
constexpr uint32_t kMaxIsas = 64;

// Reads a container from its front; every read checks that enough bytes are left.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool Bytes(uint64_t count, std::string_view* out) {
    if (count > bytes_.size()) return false;
    *out = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return true;
  }

  template <typename T>
  bool Integer(T* out) {
    std::string_view raw;
    if (!Bytes(sizeof(T), &raw)) return false;
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<T>(static_cast<unsigned char>(raw[i])) << (8 * i);
    }
    *out = value;
    return true;
  }

  size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

bool Fail(std::string* error, std::string reason) {
  *error = std::move(reason);
  return false;
}

std::string Join(const std::vector<std::string_view>& parts) {
  std::string joined;
  for (const std::string_view part : parts) {
    if (!joined.empty()) joined += ", ";
    joined += part;
  }
  return joined;
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int CreateMemoryFile() {
  // Kernels before 6.3 don't know MFD_EXEC and don't need it.
  const int fd = memfd_create("tf_blade", MFD_CLOEXEC | MFD_EXEC);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create("tf_blade", MFD_CLOEXEC);
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Spells the digits of a number as "/" (0) and "/." (1), which name nothing in a path.
std::string SpellAsPath(uint64_t number) {
  std::string path;
  for (int bit = 0; bit < 64; ++bit) path += (number >> bit & 1) != 0 ? "/." : "/";
  return path;
}

// A path to open file `fd` that nobody in this process has used. The loader takes a path it has
// seen for the library it has loaded under it, and descriptor numbers are reused. So the path says
// which copy of this runtime asks (the op library has one, the Python module another) and how often
// it has asked before.
std::string UniquePath(int fd) {
  static std::atomic<uint64_t> counter{0};
  return "/proc/self" + SpellAsPath(reinterpret_cast<uintptr_t>(&counter)) +
         SpellAsPath(++counter) + "/fd/" + std::to_string(fd);
}

// What is wrong with a description, or null.
const char* Malformed(const BladeExecutable& executable) {
  if (executable.abi_version != BLADE_ABI_VERSION) return "payload has another ABI version";
  if (executable.n_inputs < 0 || executable.n_outputs < 0 || executable.n_variants < 0 ||
      executable.n_refusals < 0) {
    return "payload declares a negative count";
  }
  if (executable.name == nullptr) return "payload has no name";
  if (executable.n_variants > 0 && executable.variants == nullptr) {
    return "payload has no variants table";
  }
  if (executable.n_refusals > 0 && executable.refusals == nullptr) {
    return "payload has no refusals table";
  }
  return nullptr;
}

const BladeVariant* BestVariant(const BladeExecutable& executable) {
  for (int i = 0; i < executable.n_variants; ++i) {
    const BladeVariant& variant = executable.variants[i];
    if (variant.isa != nullptr && variant.run != nullptr && SupportsIsa(variant.isa)) {
      return &variant;
    }
  }
  return nullptr;
}

// What is mapped now, by hash. Taken at load only.
struct Registry {
  std::mutex mutex;
  std::map<Sha256Digest, std::weak_ptr<const Executable>> mapped;

  static Registry& Get() {
    static Registry* registry = new Registry;  // outlives every kernel
    return *registry;
  }
};

}  // namespace

bool ParseContainer(std::string_view bytes, Container* container, std::string* error) {
  Reader reader(bytes);
  std::string_view magic;
  if (!reader.Bytes(kMagic.size(), &magic) || magic != kMagic) {
    return Fail(error, "not an executable (bad magic)");
  }
  uint32_t abi_version, isa_count;
  if (!reader.Integer(&abi_version)) return Fail(error, "executable is truncated");
  if (abi_version != BLADE_ABI_VERSION) {
    return Fail(error, "executable has ABI version " + std::to_string(abi_version) +
                           ", this runtime has " + std::to_string(BLADE_ABI_VERSION) +
                           ": optimize the model again with this tf-blade");
  }
  container->abi_version = abi_version;
  if (!reader.Integer(&isa_count) || isa_count > kMaxIsas) {
    return Fail(error, "executable is truncated");
  }
  container->isas.clear();
  for (uint32_t i = 0; i < isa_count; ++i) {
    uint32_t length;
    std::string_view isa;
    if (!reader.Integer(&length) || !reader.Bytes(length, &isa)) {
      return Fail(error, "executable is truncated");
    }
    container->isas.push_back(isa);
  }
  std::string_view digest;
  uint64_t size;
  if (!reader.Bytes(container->digest.size(), &digest) || !reader.Integer(&size) ||
      size > reader.left()) {
    return Fail(error, "executable is truncated");
  }
  std::memcpy(container->digest.data(), digest.data(), digest.size());
  reader.Bytes(size, &container->payload);
  if (reader.left() != 0) return Fail(error, "executable has bytes after its end");
  for (const std::string_view isa : container->isas) {
    if (SupportsIsa(isa)) return true;
  }
  return Fail(error, "no variant for this processor: built for " + Join(container->isas) +
                         ", this machine runs up to " + IsaName(BestIsa()));
}

std::shared_ptr<const Executable> Executable::Load(std::string_view bytes, std::string* error) {
  Container container;
  if (!ParseContainer(bytes, &container, error)) return nullptr;
  if (Sha256(container.payload) != container.digest) {
    *error = "executable doesn't match its hash (the model's file is damaged)";
    return nullptr;
  }
  Registry& registry = Registry::Get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  if (auto found = registry.mapped.find(container.digest); found != registry.mapped.end()) {
    if (auto executable = found->second.lock()) return executable;
    registry.mapped.erase(found);
  }
  auto executable = Map(container.payload, error);
  if (executable != nullptr) registry.mapped[container.digest] = executable;
  return executable;
}

std::shared_ptr<const Executable> Executable::Map(std::string_view payload, std::string* error) {
  const FileDescriptor file(CreateMemoryFile());
  if (file.get() < 0 || !WriteAll(file.get(), payload)) {
    *error = std::string("can't create a memory file: ") + std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<void, int (*)(void*)> library(
      dlopen(UniquePath(file.get()).c_str(), RTLD_NOW | RTLD_LOCAL), &dlclose);
  if (library == nullptr) {
    const char* reason = dlerror();
    *error = std::string("can't open the executable: ") + (reason ? reason : "unknown reason");
    return nullptr;
  }
  const auto get = reinterpret_cast<BladeExecutableFn>(dlsym(library.get(), "blade_executable"));
  const BladeExecutable* description = get != nullptr ? get() : nullptr;
  if (description == nullptr) {
    *error = "payload doesn't export blade_executable";
    return nullptr;
  }
  if (const char* reason = Malformed(*description)) {
    *error = reason;
    return nullptr;
  }
  const BladeVariant* variant = BestVariant(*description);
  if (variant == nullptr) {
    *error = std::string("payload has no variant for this processor (") + IsaName(BestIsa()) + ")";
    return nullptr;
  }
  return std::shared_ptr<const Executable>(new Executable(library.release(), description, variant));
}

Executable::~Executable() { dlclose(library_); }

const char* Executable::Reason(int status) const {
  if (status > 0 && status <= n_refusals() && description_->refusals[status - 1] != nullptr) {
    return description_->refusals[status - 1];
  }
  switch (status) {
    case BLADE_OUT_OF_MEMORY:
      return "out of memory";
    case BLADE_HOST_ERROR:
      return "a request to the host failed";
    default:
      return "the executable returned an unknown status";
  }
}

}  // namespace blade
