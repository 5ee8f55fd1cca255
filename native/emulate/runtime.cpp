// What host code compiled by nvcc calls of the CUDA runtime, for kernels that scripts/ptx_to_cpp.py translated: the device is the emulated one (grid.h), and
// kernels are found by the names that nvcc registers them under. Refuses what a GPU would: too many threads, shared memory without the opt-in.
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "ptx_kernels.h"

namespace {

namespace emulate = paceline::emulate;
using paceline::ptx::Kernel;

constexpr size_t kFreeShared = 48 << 10, kMostShared = 99 << 10;  // without and with cudaFuncAttributeMaxDynamicSharedMemorySize, on every GPU

struct Registered {
  std::string name;
  size_t most_shared = kFreeShared;
  const Kernel* kernel = nullptr;  // found when it is asked for: files are initialized in any order
};

std::mutex lock;

std::map<const void*, Registered>& functions() {  // by the address of their host stub
  static std::map<const void*, Registered> all;
  return all;
}

Registered* find(const void* function) {
  const std::lock_guard<std::mutex> hold(lock);
  const auto found = functions().find(function);
  if (found == functions().end()) return nullptr;
  Registered& registered = found->second;
  registered.kernel = paceline::ptx::find_kernel(registered.name);
  return registered.kernel ? &registered : nullptr;
}

thread_local cudaError_t last = cudaSuccess;
cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  return error;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  const std::lock_guard<std::mutex> hold(lock);
  functions()[host].name = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}  // tables are in the kernels' own file

// Of the stubs for <<<…>>>, which we do not use.
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaErrorNotSupported; }
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaErrorNotSupported; }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) { return cudaErrorNotSupported; }

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  const Registered* const found = find(function);
  if (!found) return noted(cudaErrorInvalidDeviceFunction);
  const Kernel& kernel = *found->kernel;
  if (config->blockDim.x > kernel.most_threads || config->blockDim.y != 1 || config->blockDim.z != 1 || config->dynamicSmemBytes > found->most_shared)
    return noted(cudaErrorInvalidValue);
  bool overlaps = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != cudaLaunchAttributeProgrammaticStreamSerialization) return noted(cudaErrorNotSupported);
    overlaps = config->attrs[i].val.programmaticStreamSerializationAllowed;
  }
  if (overlaps && kernel.architecture < 90) return noted(cudaErrorNotSupported);
  paceline::ptx::run_kernel(kernel, {config->gridDim.x, config->gridDim.y, config->gridDim.z}, config->blockDim.x, config->dynamicSmemBytes, overlaps, arguments);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  Registered* const found = find(function);
  if (!found) return noted(cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || static_cast<size_t>(value) > kMostShared) return noted(cudaErrorInvalidValue);
  found->most_shared = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* about, const void* function) {
  const Registered* const found = find(function);
  if (!found) return noted(cudaErrorInvalidDeviceFunction);
  *about = {};
  about->ptxVersion = about->binaryVersion = found->kernel->architecture;
  about->maxThreadsPerBlock = static_cast<int>(found->kernel->most_threads);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return noted(cudaErrorInvalidDevice);
  if (attribute == cudaDevAttrMultiProcessorCount) *value = emulate::multiprocessors();
  else if (attribute == cudaDevAttrMaxSharedMemoryPerMultiprocessor) *value = emulate::kMultiprocessorShared;
  else return noted(cudaErrorInvalidValue);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : noted(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return noted(cudaErrorUnsupportedLimit); }  // a hint, which a device may refuse
cudaError_t cudaGetLastError() { return std::exchange(last, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) { return error == cudaErrorInvalidDevice ? "cudaErrorInvalidDevice" : "cudaError"; }
const char* cudaGetErrorString(cudaError_t error) { return error == cudaErrorInvalidDevice ? "invalid device ordinal" : "an error of the emulated runtime"; }

}  // extern "C"
