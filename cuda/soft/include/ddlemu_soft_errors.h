// SPDX-License-Identifier: Apache-2.0
// The error codes of the software CUDA, with CUDA 12's values. Included by cuda_runtime_api.h. The enumeration and the
// names are generated from one list.
#ifndef DDLEMU_SOFT_ERRORS_H
#define DDLEMU_SOFT_ERRORS_H

// X(enumerator, value, text)
#define DDLEMU_SOFT_ERRORS(X) \
	X(cudaSuccess, 0, "no error") \
	X(cudaErrorInvalidValue, 1, "invalid argument") \
	X(cudaErrorMemoryAllocation, 2, "out of memory") \
	X(cudaErrorInitializationError, 3, "initialization error") \
	X(cudaErrorCudartUnloading, 4, "driver shutting down") \
	X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument") \
	X(cudaErrorInvalidHostPointer, 16, "invalid host pointer") \
	X(cudaErrorInvalidDevicePointer, 17, "invalid device pointer") \
	X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
	X(cudaErrorStubLibrary, 34, "CUDA driver is a stub library") \
	X(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version") \
	X(cudaErrorInvalidDeviceFunction, 98, "invalid device function") \
	X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected") \
	X(cudaErrorInvalidDevice, 101, "invalid device ordinal") \
	X(cudaErrorDeviceUninitialized, 201, "invalid device context") \
	X(cudaErrorMapBufferObjectFailed, 205, "mapping of buffer object failed") \
	X(cudaErrorInvalidKernelImage, 200, "device kernel image is invalid") \
	X(cudaErrorPeerAccessUnsupported, 217, "peer access is not supported between these two devices") \
	X(cudaErrorOperatingSystem, 304, "OS call failed or operation not supported on this OS") \
	X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle") \
	X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state") \
	X(cudaErrorSymbolNotFound, 500, "named symbol not found") \
	X(cudaErrorNotReady, 600, "device not ready") \
	X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered") \
	X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
	X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated") \
	X(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled") \
	X(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled") \
	X(cudaErrorContextIsDestroyed, 709, "context is destroyed") \
	X(cudaErrorAssert, 710, "device-side assert triggered") \
	X(cudaErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped") \
	X(cudaErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
	X(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered") \
	X(cudaErrorMisalignedAddress, 716, "misaligned address") \
	X(cudaErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space") \
	X(cudaErrorLaunchFailure, 719, "unspecified launch failure") \
	X(cudaErrorNotPermitted, 800, "operation not permitted") \
	X(cudaErrorNotSupported, 801, "operation not supported") \
	X(cudaErrorSystemNotReady, 802, "system not yet initialized") \
	X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing") \
	X(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define DDLEMU_SOFT_ENUM(name, value, text) name = value,
	DDLEMU_SOFT_ERRORS(DDLEMU_SOFT_ENUM)
#undef DDLEMU_SOFT_ENUM
};
typedef enum cudaError cudaError_t;

#endif
